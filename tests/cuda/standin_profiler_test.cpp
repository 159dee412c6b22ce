// What a profiler sees of a run: ranges of the host's thread, named by tasks.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/cuda/standin_program.h"

namespace unlatch::test {
namespace {

/// In the order of their start; none may lie within another.
std::vector<std::string> ranges_of(const Folder& folder, const std::string& flags) {
  const std::string profiler =
      fmt::format("UNLATCH_STANDIN=devices=2 NVTX_INJECTION64_PATH='{}' UNLATCH_STANDIN_NVTX='{}'",
                  UNLATCH_STANDIN_PROFILER, folder.file("ranges"));
  const Outcome outcome = folder.run(
      fmt::format("train --stages 2 --steps 40 --tasks t.csv {} {}", lenet, flags), profiler);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> names;
  std::istringstream lines(folder.read("ranges"));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line.substr(0, 2), "0 ") << line;
    names.push_back(line.substr(2));
  }
  return names;
}

/// The first cells of the lines of a CSV but its head.
std::vector<std::string> first_cells(const std::string& csv) {
  std::vector<std::string> cells;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    cells.push_back(line.substr(0, line.find(',')));
  }
  cells.erase(cells.begin());
  return cells;
}

const std::vector<std::string> schedules = {"1f1b --microbatches 2", "dsp", "fdg", "dni"};

TEST(StandInProfiler, SeesARangeOfEveryTask) {
  for (const std::string& schedule : schedules) {
    SCOPED_TRACE(schedule);
    const Folder folder;
    const std::vector<std::string> names =
        ranges_of(folder, fmt::format("--schedule {} {}", schedule, apart(2)));
    // Of those of a queue as well, which take no time and are not in the file.
    EXPECT_THAT(names, testing::IsSupersetOf(first_cells(folder.read("t.csv"))));
    EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size()) << "each once";
  }
}

/// What is launched as a graph is named by its first and last task.
TEST(StandInProfiler, SeesEveryTaskOfAGraphInARangeToo) {
  const std::string graph = "CUDA graph ";
  for (const std::string& schedule : schedules) {
    SCOPED_TRACE(schedule);
    const Folder folder;
    const std::string flags = fmt::format("--schedule {} {}", schedule, apart(2));
    const std::vector<std::string> tasks = ranges_of(folder, flags);
    const auto place = [&](const std::string& task) {
      return std::ranges::find(tasks, task) - tasks.begin();
    };
    std::vector<int> seen(tasks.size(), 0);
    int graphs = 0;
    for (const std::string& name : ranges_of(folder, flags + " --cuda-graph yes")) {
      std::string first = name, last = name;
      if (name.starts_with(graph)) {
        ++graphs;
        const std::size_t to = name.find(" to ");
        first = name.substr(graph.size(), to - graph.size());
        last = name.substr(to + 4);
      }
      const auto begin = place(first), end = place(last);
      ASSERT_LE(begin, end) << name;
      ASSERT_LT(end, std::ssize(tasks)) << name;
      for (auto i = begin; i <= end; ++i) ++seen[static_cast<std::size_t>(i)];
    }
    EXPECT_GT(graphs, 2);
    EXPECT_THAT(seen, testing::Each(testing::Gt(0)));
  }
}

}  // namespace
}  // namespace unlatch::test
