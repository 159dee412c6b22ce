// TasksInFlight: where the tasks of each stage and micro-batch are, while anybody may ask for them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedules/graph.h"

namespace unlatch {

/// A window of micro-batches that moves on with the run. Memory grows with the micro-batches that
/// are in flight at once.
class TasksInFlight {
 public:
  /// What is asked for. B is both of its halves.
  enum Kind {
    forward,
    input_gradient,
    weight_gradient,
    recompute,
    update,
    push_forward,
    pop_forward,
    push_backward,
    pop_backward,
    kinds,
  };
  static constexpr std::int32_t none = -1;

  /// Thrown where somebody asks for a micro-batch that has left the window.
  struct Forgotten {};

  /// Every stage has done the backward of what leaves the window, and `margin` micro-batches more.
  TasksInFlight(const Shape& shape, int margin);

  /// By kind: none, or what its user put there.
  using Entries = std::array<std::int32_t, kinds>;

  /// Those of a micro-batch. Valid until one beyond the window is asked for.
  Entries& at(Stage k, MicroBatch i) {
    if (static_cast<std::uint32_t>(i.value - first_) >= static_cast<std::uint32_t>(size_)) {
      make_room_for(i);
    }
    return entries_[cell(k, i)];
  }
  MicroBatch first() const { return {first_}; }
  MicroBatch end() const { return {first_ + size_}; }

  template <class Visit>
  void each(const Visit& visit) const {
    for (const Entries& entries : entries_) {
      for (const std::int32_t entry : entries) visit(entry);
    }
  }

 private:
  std::size_t cell(Stage k, MicroBatch i) const {
    return static_cast<std::size_t>(k.value) * size_ + (i.value & (size_ - 1));
  }
  void make_room_for(MicroBatch i);
  void move_first_to(int first);
  void grow_to(int size);
  int first_unfinished();
  bool has_to_do(Stage k, MicroBatch i) const;

  Shape shape_;
  int margin_;
  int first_ = 0;
  int size_ = 64;                 ///< a power of two
  std::vector<int> finished_;     ///< by stage: no micro-batch below lacks its backward
  std::vector<Entries> entries_;  ///< [stage][micro-batch mod size]
};

}  // namespace unlatch
