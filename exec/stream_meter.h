// StreamMeter: what a rank holds of stream memory, counted.
#pragma once

#include <algorithm>
#include <optional>

#include "exec/stream_memory.h"

namespace unlatch::exec {

/// What a rank holds, told apart by tasks: all that changes between two tasks is within one.
class StreamMeter {
 public:
  void take(std::size_t block, std::size_t asked, std::optional<TaskId> task) {
    begin(task);
    use_.held += block;
    use_.asked += asked;
    if (!task) before_run_ = use_.held;
    use_.peak = std::max(use_.peak, use_.held);
    most_ = std::max(most_, use_.held);
  }
  void drop(std::size_t block, std::size_t asked, std::optional<TaskId> task) {
    begin(task);
    use_.held -= block;
    use_.asked -= asked;
    if (!task) before_run_ = use_.held;
  }
  void allocate(std::size_t bytes) { use_.allocated += bytes; }
  void release(std::size_t bytes) { use_.allocated -= bytes; }
  void reserve(std::size_t bytes) {
    use_.reserved += bytes;
    allocate(bytes);
  }
  void drop_reserved(std::size_t bytes) {
    use_.reserved -= bytes;
    release(bytes);
  }

  /// Most held so far and with `bytes` more.
  std::size_t peak_with(std::size_t bytes) const { return std::max(use_.peak, use_.held + bytes); }
  std::size_t allocated() const { return use_.allocated; }
  std::size_t in_pool() const { return use_.allocated - use_.reserved; }
  /// What a pool holds for whom the run has not begun: weights and the like.
  std::size_t before_run() const { return before_run_; }
  /// As if the task at hand were over.
  StreamMemory::Use use() const {
    StreamMemory::Use use = use_;
    use.kept_peak = std::max({use.kept_peak, before_, use.held});
    use.workspace = std::max(use.workspace, most_ - std::max(before_, use.held));
    return use;
  }

 private:
  void begin(std::optional<TaskId> task) {
    if (task == task_) return;
    use_ = use();
    task_ = task;
    before_ = most_ = use_.held;
  }

  StreamMemory::Use use_;
  std::optional<TaskId> task_;  ///< the last that changed anything; none before the run
  std::size_t before_run_ = 0;
  std::size_t before_ = 0;  ///< held when it began
  std::size_t most_ = 0;    ///< held since
};

}  // namespace unlatch::exec
