// Golden timelines: the drawn tables of the methods, slot by slot, and the files under
// tests/golden, each a command line and everything it prints (rewritten by
// UNLATCH_UPDATE_GOLDEN=1).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "schedules/registry.h"
#include "sim/simulator.h"
#include "sim/stage_costs.h"

namespace unlatch {
namespace {

struct Drawing {
  std::string schedule;
  int stages = 3;
  int micro_batches = 1;
  int batches = 12;
  /// As drawn in the literature: "W0 F0 . B0 B0", every slot of a task labelled; "W0R" is the
  /// recompute lane.
  std::vector<std::string> rows;
};

/// label of what runs in each unit slot, by row name.
std::map<std::string, std::vector<std::string>> slots(const Drawing& drawing, std::size_t count) {
  const Shape shape{
      .stages = drawing.stages, .micro_batches = drawing.micro_batches, .batches = drawing.batches};
  const TaskGraph graph = ScheduleSpec::parse(drawing.schedule).make(shape).build();
  sim::CostSettings settings;
  settings.forward = "1ns";
  settings.backward = "2ns";
  const Timeline timeline =
      sim::run(graph, sim::StageCosts(sim::stage_times(settings, drawing.stages)));
  std::map<std::string, std::vector<std::string>> rows;
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (!is_compute(task.op)) continue;
    const bool recompute_lane = graph.lane(task).engine == Engine::recompute;
    auto& row = rows[fmt::format("W{}{}", graph.rank(task).value, recompute_lane ? "R" : "")];
    row.resize(count, ".");
    for (auto t = timeline[id].start; t < timeline[id].end; t += nanoseconds(1)) {
      if (t.count() < static_cast<std::int64_t>(count)) {
        row[t.count()] = fmt::format("{}{}", letter(task.op), task.micro_batch.value);
      }
    }
  }
  return rows;
}

class DrawnTimeline : public testing::TestWithParam<Drawing> {};

TEST_P(DrawnTimeline, ComesOutSlotBySlot) {
  for (const std::string& text : GetParam().rows) {
    std::istringstream words(text);
    std::string name, word;
    words >> name;
    std::vector<std::string> expected;
    while (words >> word) expected.push_back(word);
    EXPECT_EQ(slots(GetParam(), expected.size())[name], expected) << name;
  }
}

const std::vector<std::string> two_per_hop{
    "W0 F0 F1 F2 . . F3 . . F4 B0 B0 F5 B1 B1 F6 B2 B2 F7",
    "W1 . F0 F1 . . F2 B0 B0 F3 B1 B1 F4 B2 B2 F5 B3 B3 F6",
    "W2 . . F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 F4 B4 B4 F5"};

INSTANTIATE_TEST_SUITE_P(
    Decoupled, DrawnTimeline,
    testing::Values(Drawing{"bp",
                            3,
                            1,
                            12,
                            {"W0 F0 . . . . . . B0 B0 F1 . . . . . . B1 B1",
                             "W1 . F0 . . . B0 B0 . . . F1 . . . B1 B1 . .",
                             "W2 . . F0 B0 B0 . . . . . . F1 B1 B1 . . . ."}},
                    Drawing{"gpipe:recompute=except_last",
                            3,
                            4,
                            1,
                            {"W0 F0 F1 F2 F3 . . . . . . B3 B3 R2 B2 B2 R1 B1 B1 R0 B0 B0",
                             "W1 . F0 F1 F2 F3 . . . B3 B3 R2 B2 B2 R1 B1 B1 R0 B0 B0 . .",
                             "W2 . . F0 F1 F2 F3 B3 B3 R2 B2 B2 R1 B1 B1 R0 B0 B0 . . . ."}},
                    Drawing{"ddg",
                            3,
                            1,
                            12,
                            {"W0 F0 . . . . F1 . . . . F2 . . B0 B0 F3 . .",
                             "W1 . F0 . . . . F1 . B0 B0 . F2 . B1 B1 . F3 .",
                             "W2 . . F0 B0 B0 . . F1 B1 B1 . . F2 B2 B2 . . F3"}},
                    Drawing{"ddg:form=mailbox",
                            3,
                            1,
                            12,
                            {"W0 F0 F1 . . . . . . F2 B0 B0 . F3 B1 B1 . F4 B2",
                             "W1 . F0 . . . F1 B0 B0 . F2 B1 B1 . F3 B2 B2 . F4",
                             "W2 . . F0 B0 B0 . F1 B1 B1 . F2 B2 B2 . F3 B3 B3 ."}},
                    Drawing{"fr",
                            3,
                            1,
                            12,
                            {"W0 F0 . . . . F1 . . . . . F2 . . R0 B0 B0 F3",
                             "W1 . F0 . . . . F1 . R0 B0 B0 . F2 . R1 B1 B1 .",
                             "W2 . . F0 B0 B0 . . F1 B1 B1 . . . F2 B2 B2 . ."}},
                    Drawing{"dsp:form=lockstep",
                            3,
                            1,
                            12,
                            {two_per_hop[0], "W0R . . . . . . . . R0 . . R1 . . R2 . . R3",
                             two_per_hop[1], "W1R . . . . . R0 . . R1 . . R2 . . R3 . . R4",
                             two_per_hop[2]}},
                    Drawing{"dsp:queues=unbounded",
                            3,
                            1,
                            12,
                            {"W0 F0 F1 F2 F3 F4 . . B0 B0 F5 B1 B1 F6 B2 B2 F7 B3 B3",
                             "W1 . F0 F1 F2 . B0 B0 F3 B1 B1 F4 B2 B2 F5 B3 B3 F6 B4",
                             "W2 . . F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 F4 B4 B4 F5"}},
                    Drawing{"fdg", 3, 1, 12, two_per_hop},
                    Drawing{"fdg:order=bf",
                            3,
                            1,
                            12,
                            {"W0 F0 F1 F2 . . F3 . . B0 B0 F4 B1 B1 F5 B2 B2 F6 B3",
                             "W1 . F0 F1 . . B0 B0 F2 B1 B1 F3 B2 B2 F4 B3 B3 F5 B4",
                             "W2 . . F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 F4 B4 B4 F5"}}));

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "cannot run the program";
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  pclose(pipe);
  return text;
}

TEST(GoldenFiles, AreWhatTheirCommandsPrint) {
  const std::filesystem::path folder = std::filesystem::path(UNLATCH_SOURCE_DIR) / "tests/golden";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    ++files;
    std::ifstream file(entry.path());
    std::string command;
    std::getline(file, command);
    const std::string prefix = "$ unlatch ";
    ASSERT_TRUE(command.starts_with(prefix)) << entry.path();
    const std::string expected{std::istreambuf_iterator<char>(file), {}};
    const std::string printed =
        output_of(fmt::format("{} {}", UNLATCH_PROGRAM, command.substr(prefix.size())));
    if (std::getenv("UNLATCH_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(entry.path()) << command << "\n" << printed;
    } else {
      EXPECT_EQ(printed, expected) << entry.path();
    }
  }
  EXPECT_GE(files, 7) << "the golden files are gone";
}

TEST(Readme, HoldsWhatTheProgramPrints) {
  std::ifstream file(std::filesystem::path(UNLATCH_SOURCE_DIR) / "README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  for (const std::string arguments : {"schedules --markdown", "show bp --stages 3 --batches 2",
                                      "show dsp --stages 3 --batches 6"}) {
    const std::string printed = output_of(fmt::format("{} {}", UNLATCH_PROGRAM, arguments));
    ASSERT_FALSE(printed.empty());
    EXPECT_NE(readme.find(printed), std::string::npos)
        << "README.md does not hold what `unlatch " << arguments << "` prints now:\n"
        << printed;
  }
}

TEST(Readme, HoldsAnExampleThatCompilesAndTrainsLikeBackPropagation) {
  const std::filesystem::path source(UNLATCH_SOURCE_DIR);
  std::ifstream file(source / "README.md"), example(source / "examples/pairs.cpp");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  const std::string code{std::istreambuf_iterator<char>(example), {}};
  EXPECT_NE(readme.find(fmt::format("```cpp\n{}```", code)), std::string::npos);

  std::istringstream printed(output_of(UNLATCH_EXAMPLE));
  std::string line, drawing;
  while (std::getline(printed, line) && line.starts_with("rank")) {
    drawing += line;
    drawing += '\n';
  }
  EXPECT_NE(readme.find(fmt::format("```\n{}```", drawing)), std::string::npos) << drawing;
  std::istringstream numerics(output_of(fmt::format(
      "{} numerics --schedule gpipe --microbatches 4 --batches 1 --weights 0.9,-0.8,1.1 --json",
      UNLATCH_PROGRAM)));
  const auto expected = nlohmann::json::parse(numerics)["final"];
  for (int k = 0; k < 3; ++k, std::getline(printed, line)) {
    EXPECT_NEAR(std::stod(line), expected[k].get<double>(), 1e-11);
  }
}

}  // namespace
}  // namespace unlatch
