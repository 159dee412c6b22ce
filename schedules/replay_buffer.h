// ReplayBuffer: the last few outputs of a stage, from which the next stage draws (DGL).
#pragma once

#include <algorithm>
#include <vector>

#include "schedules/error.h"
#include "schedules/ids.h"

namespace unlatch {

/// Priority LIFO, as the authors' code draws: of the entries drawn least often, the newest.
class ReplayBuffer {
 public:
  explicit ReplayBuffer(int capacity) : capacity_(capacity) {}

  /// Overwrites the oldest entry of a full buffer.
  void push(MicroBatch step) {
    if (static_cast<int>(entries_.size()) == capacity_) entries_.erase(entries_.begin());
    entries_.push_back({step, 0});
  }
  MicroBatch draw() {
    require(!entries_.empty(), "replay buffer: nothing to draw from");
    const auto newest_first =
        std::min_element(entries_.rbegin(), entries_.rend(),
                         [](const Entry& a, const Entry& b) { return a.draws < b.draws; });
    ++newest_first->draws;
    return newest_first->step;
  }

 private:
  struct Entry {
    MicroBatch step;
    int draws = 0;
  };
  int capacity_;
  std::vector<Entry> entries_;  ///< oldest first
};

}  // namespace unlatch
