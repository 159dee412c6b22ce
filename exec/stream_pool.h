// StreamPool: the device memory of one rank in blocks of some sizes, and how much of it there may
// be.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "exec/stream_meter.h"

namespace unlatch::exec {

/// Memory that goes from tensor to tensor.
struct StreamBlock {
  /// The last task of a lane that used it.
  struct User {
    LaneId lane;
    TaskId task;
  };

  Rank rank = {};
  std::size_t size = 0;
  std::byte* memory = nullptr;
  int number = 0;  ///< in the order of allocation
  std::vector<User> users = {};
  std::size_t asked = 0;  ///< by the tensor that has it

  int last_task() const;
};

/// Counts and keeps blocks; who may have them, and when, others decide. Tasks are those at hand,
/// none before the run.
class StreamPool {
 public:
  /// A rank may take so many times what it holds at most during the run, so as not to wait: the
  /// host can be many steps ahead; without a bound, so would the memory be.
  static constexpr std::size_t run_ahead = 2;

  /// Of a size and dropped, by number.
  std::vector<StreamBlock*>& free(std::size_t size) { return sizes_[size].free; }
  /// Calls it with every list of free blocks.
  template <class F>
  void for_each_free(F call) {
    for (auto& [size, of_size] : sizes_) call(of_size.free);
  }

  /// It has come from the device, or goes back.
  void add(const StreamBlock& block);
  void remove(const StreamBlock& block);
  /// A tensor has it, or has dropped it.
  void hold(const StreamBlock& block, std::optional<TaskId> task);
  void drop(StreamBlock& block, std::optional<TaskId> task);
  void reserve(std::size_t bytes) { meter_.reserve(bytes); }
  void drop_reserved(std::size_t bytes) { meter_.drop_reserved(bytes); }

  const StreamMeter& meter() const { return meter_; }
  bool may_run_ahead(std::size_t size) const;
  /// The rank applies an update: with it ends a step.
  void note_update(TaskId task) { updated_ = task; }
  /// True once behind each step in which the rank held more than ever before. Asking a device for
  /// memory may hold it up: from the first step's end on all that is lacking is asked for there,
  /// and nothing in between but what there is no way without.
  bool begins_to_run_ahead(TaskId task);
  bool runs_ahead() const { return peak_ > 0; }
  /// The sizes of blocks that are lacking for running ahead.
  std::vector<std::size_t> lacking() const;

 private:
  struct Size {
    std::vector<StreamBlock*> free;
    std::size_t blocks = 0;
    std::size_t held = 0;
    std::size_t most = 0;   ///< held
    std::size_t stays = 0;  ///< held before the run
  };

  std::map<std::size_t, Size> sizes_;
  StreamMeter meter_;
  std::optional<TaskId> updated_;
  std::size_t peak_ = 0;  ///< that of the meter when blocks were lacking last
};

}  // namespace unlatch::exec
