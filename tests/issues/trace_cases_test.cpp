// Acceptance cases about Chrome traces that the program writes: O24, O25, O26, O28 and O30.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;

/// The events of a trace, which a strict parser (no NaN, no Infinity) must accept.
json events_of(const Folder& folder, const std::string& arguments) {
  const Outcome outcome = folder.run(arguments + " --trace t.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return json::parse(folder.read("t.json"))["traceEvents"];
}

std::int64_t ns(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

TEST(O24, SpansOfATrackNeverHalfOverlap) {
  const Folder folder;
  for (const char* schedule : {"1f1b --microbatches 8", "dsp --batches 12", "fr --batches 6"}) {
    const json events = events_of(
        folder, fmt::format("simulate --schedule {} --transfer 0.333333 --forward 1.000001 "
                            "--overlap 0.37",
                            schedule));
    std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> tracks;
    for (const json& event : events) {
      if (event["ph"] != "X") continue;
      const std::int64_t start = ns(event["ts"]);
      tracks[{event["pid"], event["tid"]}].emplace_back(start, start + ns(event["dur"]));
    }
    EXPECT_GT(tracks.size(), 4u);
    for (const auto& [track, spans] : tracks) {
      for (std::size_t a = 0; a < spans.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
          const auto &x = spans[a], &y = spans[b];
          const bool apart = x.second <= y.first || y.second <= x.first;
          const bool inside = (x.first >= y.first && x.second <= y.second) ||
                              (y.first >= x.first && y.second <= x.second);
          ASSERT_TRUE(apart || inside) << schedule << " at " << x.first << " and " << y.first;
        }
      }
    }
  }
}

TEST(O25, NeighboursATenthOfAMicrosecondApartStayApart) {
  const Folder folder;
  // Forwards 0.1 us after each other; backwards of 10 days.
  const json events = events_of(folder,
                                "simulate --schedule gpipe --stages 2 --microbatches 3 "
                                "--forward 100ns,100ns --backward 864000s,100ns");
  std::map<std::string, json> spans;
  for (const json& event : events) {
    if (event["ph"] == "X") spans[event["name"]] = event;
  }
  EXPECT_EQ(spans["0F0"]["ts"], 0.0);
  EXPECT_EQ(spans["0F1"]["ts"], 0.1);
  EXPECT_EQ(spans["0F1"]["dur"], 0.1);
  EXPECT_EQ(spans["1F2"]["ts"], 0.3);
  EXPECT_EQ(ns(spans["0B0"]["ts"]) - ns(spans["0B1"]["ts"]), 864'000'000'000'000);
}

TEST(O26, AnIdleDeviceAndARunWithoutLengthGiveValidFiles) {
  const Folder folder;
  const std::string run = "simulate --schedule gpipe --stages 2 --microbatches 2 ";
  for (const char* costs : {"--forward 0 --backward 0", "--forward 1,0 --backward 2,0"}) {
    const json events = events_of(folder, run + costs);
    int spans = 0;
    for (const json& event : events) spans += event["ph"] == "X" ? 1 : 0;
    EXPECT_EQ(spans, 2 * (2 + 2 + 1)) << "tasks without length are kept";
    const Outcome compared = folder.run(
        fmt::format("compare --schedule bp --schedule gpipe --stages 2 {} --report r.html", costs));
    EXPECT_EQ(compared.code, 0) << compared.err;
    for (const std::string& text :
         {folder.run(run + costs).out, folder.run(run + costs + " --json").out, compared.out,
          folder.read("t.json"), folder.read("r.html")}) {
      EXPECT_THAT(text, testing::Not(testing::ContainsRegex("[^a-z](nan|NaN|inf|Infinity)[^a-z]")));
    }
  }
  const json idle = folder.json(run + "--forward 1,0 --backward 2,0");
  EXPECT_EQ(idle["ranks_detail"][1]["utilization"], 0.0);
  EXPECT_EQ(idle["ranks_detail"][1]["busy_ms"], 0.0);
}

TEST(O28, OneArrowForEachTransferOf1f1b) {
  const Folder folder;
  for (const char* transfer : {"0", "0.25"}) {
    const std::string run =
        fmt::format("simulate --schedule 1f1b --microbatches 8 --transfer {}", transfer);
    std::set<int> starts, finishes;
    for (const json& event : events_of(folder, run)) {
      if (event["ph"] == "s") {
        EXPECT_TRUE(starts.insert(event["id"].get<int>()).second);
      }
      if (event["ph"] != "f") continue;
      EXPECT_TRUE(finishes.insert(event["id"].get<int>()).second);
      EXPECT_EQ(event["bp"], "e");
    }
    EXPECT_EQ(starts.size(), 48u);
    EXPECT_EQ(starts, finishes);
    EXPECT_EQ(folder.json(run)["transfers"]["count"], 48);
  }
}

TEST(O30, TwelveRanksStandInOrderOfNumber) {
  const Folder folder;
  std::map<int, json> names, order;
  for (const json& event :
       events_of(folder, "simulate --schedule 1f1b --stages 12 --microbatches 12")) {
    EXPECT_GE(event["pid"], 1);
    EXPECT_GE(event.value("tid", 1), 1);
    EXPECT_GE(event.value("ts", 0.0), 0.0);
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
    if (event["name"] == "process_sort_index") order[event["pid"]] = event["args"]["sort_index"];
  }
  ASSERT_EQ(names.size(), 12u);
  for (int rank = 0; rank < 12; ++rank) {
    EXPECT_EQ(names[rank + 1], fmt::format("rank {}", rank));
    EXPECT_TRUE(order[rank + 1].is_number_integer());
    EXPECT_EQ(order[rank + 1], rank);
  }
}

}  // namespace
}  // namespace unlatch::test
