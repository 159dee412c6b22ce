// --cluster: what copies of a stage sum up, over rings, trees, servers and links they share.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <vector>

#include "tests/tools/cluster_support.h"
#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;

TEST(ClusterCollectives, SumsReplicasUpOverTheirLinks) {
  const Folder folder;
  const std::string pipeline =
      "simulate --schedule ssgd --stages 2 --cluster 8xA100 --model resnet20 --batch-size 256 "
      "--json";
  const json one = json::parse(folder.run(pipeline + " --replicas 1 --batches 8").out);
  const json two = json::parse(folder.run(pipeline + " --replicas 2 --batches 8").out);
  EXPECT_LT(two["makespan_ms"], one["makespan_ms"]);
  EXPECT_GT(two["makespan_ms"], one["makespan_ms"].get<double>() / 2);
}

// A ring of three on a line goes back over both of its cables.
TEST(ClusterCollectives, ClosesTheRingOfAnAllReduce) {
  const Folder folder;
  json file = two_devices();
  file["node"] = {
      {"devices", {{"type", "X"}, {"count", 3}}},
      {"links", {link("device0", "device1", "1GB/s"), link("device1", "device2", "1GB/s")}}};
  folder.write("pair.json", file.dump());
  folder.json(
      "simulate --cluster pair.json --model mlp:hidden=64 --data digits --batch-size 15 --schedule "
      "ssgd --replicas 3 --stages 1 --batches 1 --tasks t.csv");
  const double bytes = 4 * (64 * 64 + 64 + 64 * 10 + 10);
  EXPECT_NEAR(folder.length_ms("t.csv", "0AR0"), 4 * (0.006 + bytes / 3 / 1e6), 1e-6);
}

/// Bytes of all weights and biases, as float32.
constexpr double weights = 4 * (64 * 64 + 64 + 64 * 10 + 10);

/// A star of four devices; a route takes 6 us and a byte a nanosecond.
json star_of_four() {
  json file = two_devices();
  file["node"] = {{"devices", {{"type", "X"}, {"count", 4}}},
                  {"switches", {"root"}},
                  {"links", {link("device", "root", "1GB/s")}}};
  return file;
}

const std::string four_copies = on_pair + "--replicas 4 --stages 1 --batches 3 --tasks t.csv ";

// 2 (n-1) latency + 2 (n-1)/n bytes/bandwidth, or 2 latency log2(n) + 2 bytes/bandwidth; the same
// where a flow could share a link and nobody is there to share with.
TEST(ClusterCollectives, SumsInARingOrInTrees) {
  const Folder folder;
  folder.write("pair.json", star_of_four().dump());
  for (const char* contention : {"none", "fair"}) {
    const std::string run = four_copies + "--schedule ssgd --contention " + contention;
    SCOPED_TRACE(run);
    folder.json(run);
    EXPECT_NEAR(folder.length_ms("t.csv", "0AR0"), 6 * 0.006 + 1.5 * weights / 1e6, 2e-6);
    folder.json(run + " --all-reduce tree");
    EXPECT_NEAR(folder.length_ms("t.csv", "0AR0"), 4 * 0.006 + 2 * weights / 1e6, 2e-6);
  }
}

// An entry that is sent is its value and its index: each copy gets 2 x 0.1 of the bytes of the
// three others.
TEST(ClusterCollectives, SendsTheLargestEntriesWithTheirPlaces) {
  const Folder folder;
  folder.write("pair.json", star_of_four().dump());
  folder.json(four_copies + "--schedule ssgd:compression=topk,ratio=0.1");
  EXPECT_NEAR(folder.length_ms("t.csv", "0AR0"), 3 * 0.006 + 3 * 0.2 * weights / 1e6, 1e-6);
}

/// Lengths of all tasks of a kind in the file of --tasks, by their stage.
std::map<std::string, std::vector<double>> lengths_ms(const Folder& folder, const char* kind) {
  std::istringstream lines(folder.read("t.csv"));
  std::map<std::string, std::vector<double>> lengths;
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> fields;
    std::istringstream entries(line);
    for (std::string entry; std::getline(entries, entry, ',');) fields.push_back(entry);
    if (fields.at(1) == kind) {
      lengths[fields.at(2)].push_back(std::stod(fields.at(8)) - std::stod(fields.at(7)));
    }
  }
  return lengths;
}

// The server sits where the first copy does, which sends nothing; three others may send at once.
TEST(ClusterCollectives, SendsGradientsToAServerAndWeightsBack) {
  const Folder folder;
  folder.write("pair.json", star_of_four().dump());
  const double alone = 0.006 + weights / 1e6;
  for (const char* schedule : {"asgd", "ssp", "ssd-sgd:warmup=0,delay=1"}) {
    SCOPED_TRACE(schedule);
    folder.json(four_copies + "--schedule " + schedule);
    for (const char* kind : {"PUSH", "PULL"}) {
      SCOPED_TRACE(kind);
      const auto lengths = lengths_ms(folder, kind);
      ASSERT_EQ(lengths.size(), 3U);
      EXPECT_FALSE(lengths.contains("0"));
      for (const auto& [stage, each] : lengths) {
        for (const double length : each) EXPECT_NEAR(length, alone, 1e-6);
      }
    }
  }
  folder.json(four_copies + "--schedule ssd-sgd:warmup=0,delay=1 --contention fair");
  for (const auto& [stage, each] : lengths_ms(folder, "PUSH")) {
    EXPECT_NEAR(each.front(), 0.006 + 3 * weights / 1e6, 2e-6) << "on the server's link down";
  }
}

// Two sums that cross the middle cable of a line in the same direction.
TEST(ClusterCollectives, LetsSumsShareALink) {
  const Folder folder;
  json file = two_devices();
  file["node"] = {{"devices", {{"type", "X"}, {"count", 4}}},
                  {"links",
                   {link("device0", "device1", "1GB/s"), link("device1", "device2", "1MB/s"),
                    link("device2", "device3", "1GB/s")}}};
  folder.write("pair.json", file.dump());
  const auto makespan = [&](const char* contention) {
    const std::string run = fmt::format(
        "--schedule ssgd --replicas 2 --stages 2 --partition 2/1 --batches 1 --contention {}",
        contention);
    return folder.json(on_pair + run)["makespan_ms"].get<double>();
  };
  // The first stage's weights need 16.64 ms of it, those of the second 2.6: alone, the first ends
  // last; together they are on it for as long as both need.
  EXPECT_NEAR(makespan("fair") - makespan("none"), 2.6, 0.05);
}

}  // namespace
}  // namespace unlatch::test
