// A network for benchmarks: nodes of eight ranks whose messages share the way out of their node.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "sim/traffic.h"

namespace unlatch::sim {

/// Ranks of nodes of eight, each with one link out and one in for all of them, and one of its own.
/// Every message is of as many bytes; stage k is on rank k.
class NodesOfEight : public Traffic {
 public:
  NodesOfEight(int ranks, double bytes) : links_(2 * static_cast<std::size_t>(ranks), 1e9) {
    const int nodes = (ranks + 7) / 8;
    links_.insert(links_.end(), 2 * static_cast<std::size_t>(nodes), 2e9);
    const auto link = [&](int to, bool in) { return 2 * to + (in ? 1 : 0); };
    for (int from = 0; from < ranks; ++from) {
      for (const int to : {from + 1, from - 1}) {
        Transfer transfer{{link(from, false), link((to + ranks) % ranks, true)}, {}, bytes};
        if (from / 8 != to / 8) {
          transfer.route.push_back(2 * ranks + 2 * (from / 8));
          transfer.route.push_back(2 * ranks + 2 * (((to + ranks) % ranks) / 8) + 1);
        }
        transfers_.push_back(std::move(transfer));
      }
    }
  }
  const std::vector<double>& links() const override { return links_; }
  std::span<const Transfer> transfers(const Task& task) const override {
    if (!is_send(task.op)) return {};
    const bool back = task.op == Op::send_backward;
    return {&transfers_[2 * static_cast<std::size_t>(task.stage.value) + (back ? 1 : 0)], 1};
  }

 private:
  std::vector<double> links_;
  std::vector<Transfer> transfers_;
};

}  // namespace unlatch::sim
