// Strong ids (Stage, Rank, MicroBatch, TaskId, LaneId) and the ranges that loops run over.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ranges>

namespace unlatch {

/// An index that only mixes with its own kind: id + n, id - n, and id - id give an id and an int.
template <class Tag>
struct Id {
  std::int32_t value = 0;

  friend constexpr auto operator<=>(Id, Id) = default;
  friend constexpr Id operator+(Id id, int n) { return {id.value + n}; }
  friend constexpr Id operator-(Id id, int n) { return {id.value - n}; }
  friend constexpr int operator-(Id a, Id b) { return a.value - b.value; }
  constexpr Id& operator++() {
    ++value;
    return *this;
  }
  constexpr Id operator++(int) {
    Id old = *this;
    ++value;
    return old;
  }
};

using Stage = Id<struct StageTag>;            ///< Slice of the model, 0 at the input.
using Rank = Id<struct RankTag>;              ///< What runs one program of tasks.
using MicroBatch = Id<struct MicroBatchTag>;  ///< Slice of the data, numbered over the whole run.
using TaskId = Id<struct TaskTag>;            ///< Place of a task in its graph.
using LaneId = Id<struct LaneTag>;            ///< Place of a lane in its graph.

/// first, first+1, .., last-1 (empty when last <= first).
template <class I>
constexpr auto between(I first, I last) {
  const int n = last - first;
  return std::views::iota(0, n > 0 ? n : 0) |
         std::views::transform([first](int i) { return first + i; });
}

/// 0, 1, .., n-1 as ids.
template <class I>
constexpr auto up_to(int n) {
  return between(I{0}, I{n});
}

}  // namespace unlatch

template <class Tag>
struct std::hash<unlatch::Id<Tag>> {
  std::size_t operator()(unlatch::Id<Tag> id) const noexcept {
    return std::hash<std::int32_t>{}(id.value);
  }
};
