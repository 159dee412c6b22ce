// A device that never comes to an end, which is a stand-in: the host gives up, and waits for it
// nowhere on its way out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "exec/data_feed.h"
#include "exec/device_library.h"
#include "exec/executor.h"
#include "exec/stage_runner.h"
#include "exec/stream_backend.h"
#include "models/dataset.h"
#include "models/partition.h"
#include "schedules/error.h"
#include "schedules/registry.h"

namespace unlatch::exec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// What a run throws whose device stops at an event. The stand-in ends the process
/// where the host would hang.
std::string told_of_hang(bool graphs) {
  const TaskGraph graph =
      ScheduleSpec::parse("1f1b").make({.stages = 2, .micro_batches = 2, .batches = 10}).build();
  const models::Model model = models::make_model("lenet", {1, 8, 8}, 10);
  const auto ranges = models::uniform_partition(static_cast<int>(model.layers.size()), 2);
  const models::DataSplit data = models::load_data("digits");
  DataFeed feed(data.train, model.input, 16, 2, 3);
  DeviceSettings settings;
  settings.graphs = graphs;
  settings.timeout = std::chrono::seconds(1);
  const auto device =
      cuda_library().start(graph, model, ranges, {.micro_batch_size = 8}, settings, feed);
  StageRunner runner(graph, device->modules(), device->feed(), [](int) { return 0.05; }, {});
  StreamBackend backend(graph, device->order(), runner);
  try {
    run(graph, backend);
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

// Each in a process of its own.
class Hang : public testing::TestWithParam<bool> {};

TEST_P(Hang, IsToldOfOnceAndEnds) {
  const auto tell = [] {
    setenv("UNLATCH_STANDIN", "stuck_record=60", 1);
    std::fputs(told_of_hang(GetParam()).c_str(), stderr);
    std::_Exit(0);  // what was given up is never freed
  };
  EXPECT_EXIT(tell(), testing::ExitedWithCode(0),
              AllOf(StartsWith("rank "), HasSubstr(", task "),
                    HasSubstr("the device is not done with it after 1 s")));
}

INSTANTIATE_TEST_SUITE_P(WithGraphs, Hang, testing::Bool());

}  // namespace
}  // namespace unlatch::exec
