// A library for --device cuda that needs no GPU: the CPU computes, and every task takes a time of
// its kind. What the program does with a device is tested with it.
#include "tests/support/fake_device.h"

namespace {

using unlatch::nanoseconds;
using unlatch::Op;
using unlatch::Task;
using unlatch::TaskGraph;

nanoseconds time_of(const TaskGraph& graph, const Task& task) {
  using std::chrono::microseconds;
  switch (task.op) {
    case Op::forward:
      return microseconds((task.has(unlatch::replayed) ? 80 : 100) +
                          (graph.shape().is_first(task.stage) ? 30 : 0) +
                          (graph.shape().is_last(task.stage) ? 20 : 0));
    case Op::recompute:
      return microseconds(100);
    case Op::backward:
      return microseconds(200);
    case Op::backward_input:
      return microseconds(110);
    case Op::backward_weight:
      return microseconds(90);
    default:
      return microseconds(10);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const unlatch::exec::DeviceLibrary*
unlatch_device_library() {
  static const unlatch::testing_support::FakeDeviceLibrary library(time_of);
  return &library;
}
