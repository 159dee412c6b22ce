#include "models/batch_sizes.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <ranges>
#include <set>

#include "models/specification.h"
#include "schedules/error.h"

namespace unlatch::models {
namespace {

constexpr int most_batches = 1 << 30;

}  // namespace

BatchRamp BatchRamp::parse(std::string_view text) {
  constexpr int most = 1 << 20;
  const Specification asked("batch ramp", fmt::format("ramp:{}", text));
  asked.refuse_argument();
  asked.allow_keys({"start", "step", "every"});
  for (const char* key : {"start", "step", "every"}) {
    require(asked.has(key),
            "'{}' has no {}; a ramp is start=16,step=16,every=100: samples of the "
            "first batches, and how many more after so many batches",
            text, key);
  }
  return {.start = asked.whole("start", 1, 1, most),
          .step = asked.whole("step", 1, 1, most),
          .every = asked.whole("every", 1, 1, most)};
}

BatchSizes::BatchSizes(int samples, const Batching& asked) : samples_(samples), asked_(asked) {
  const int size = asked_.batch_size, parts = asked_.micro_batches;
  require(size >= 1, "the batch size must be at least 1, not {}", size);
  require(size <= samples,
          "a batch of {} samples cannot be drawn from {} samples; choose a batch size of at most "
          "that",
          size, samples);
  require(parts >= 1 && size >= parts, "{} samples do not make up {} micro-batches", size, parts);
  const auto require_whole = [&](int of, const char* what) {
    require(asked_.uneven || of % parts == 0,
            "{} of {} samples is not divisible by {} micro-batches; choose a multiple of {}, or "
            "micro-batches of different sizes",
            what, of, parts, parts);
  };
  require_whole(size, "a batch");
  if (asked_.ramp) {
    require_whole(asked_.ramp->start, "a ramp's start");
    require_whole(asked_.ramp->step, "a ramp's step");
    require(asked_.ramp->start >= parts,
            "a ramp's start of {} samples do not make up {} micro-batches", asked_.ramp->start,
            parts);
    require(asked_.ramp->start <= size,
            "a ramp's start of {} samples is above the batch size of {}", asked_.ramp->start, size);
  }
  levels_.push_back({.size = asked_.ramp ? asked_.ramp->start : size});
  if (asked_.ramp) climb(*asked_.ramp);
}

int BatchSizes::batches_from(int first, int size) const {
  const int left = samples_ - first;
  const bool rest = asked_.uneven && left % size >= asked_.micro_batches;
  return left / size + (rest ? 1 : 0);
}

void BatchSizes::climb(const BatchRamp& ramp) {
  for (std::int64_t n = ramp.every; levels_.back().size < asked_.batch_size; n += ramp.every) {
    if (n >= most_batches) return;  // no run comes so far
    const int number = static_cast<int>(n);
    const Batch before = batch_of(levels_.back(), number - 1);
    levels_.push_back({.number = number,
                       .size = std::min(levels_.back().size + ramp.step, asked_.batch_size),
                       .epoch = before.epoch,
                       .first = before.first + before.size});
  }
}

const BatchSizes::Level& BatchSizes::level_of(int number) const {
  return *std::prev(std::ranges::upper_bound(levels_, number, {}, &Level::number));
}

BatchSizes::Batch BatchSizes::batch_of(const Level& level, int number) const {
  int epoch = level.epoch, first = level.first, behind = number - level.number;
  if (const int here = batches_from(first, level.size); behind >= here) {
    behind -= here;
    const int per_epoch = batches_from(0, level.size);
    epoch += 1 + behind / per_epoch;
    behind %= per_epoch;
    first = 0;
  }
  first += behind * level.size;
  return {.epoch = epoch, .first = first, .size = std::min(level.size, samples_ - first)};
}

BatchSizes::Batch BatchSizes::batch(int number) const { return batch_of(level_of(number), number); }

/// The first ones hold a sample more.
BatchSizes::Part BatchSizes::part(const Batch& batch, int number) const {
  const int size = batch.size / asked_.micro_batches, more = batch.size % asked_.micro_batches;
  return {.first = number * size + std::min(number, more), .size = size + (number < more ? 1 : 0)};
}

int BatchSizes::batches_of_epochs(int epochs) const {
  const auto is_before = [&](int number) { return batch(number).epoch < epochs; };
  const auto all = std::views::iota(0, most_batches);
  return *std::ranges::partition_point(all, is_before);
}

double BatchSizes::batches_of_epochs(double epochs) const {
  const int whole = static_cast<int>(epochs);
  const int begun = batches_of_epochs(whole);
  return begun + (epochs - whole) * (batches_of_epochs(whole + 1) - begun);
}

std::vector<int> BatchSizes::part_sizes(int batches) const {
  std::set<int, std::greater<>> sizes;
  for (std::size_t l = 0; l < levels_.size() && levels_[l].number < batches; ++l) {
    const Level& level = levels_[l];
    const int end = l + 1 < levels_.size() ? std::min(batches, levels_[l + 1].number) : batches;
    const int next = level.number + batches_from(level.first, level.size);
    // First and last of the epoch where the level begins, and of the next one.
    for (const int n : {level.number, next - 1, next, next + batches_from(0, level.size) - 1}) {
      if (n < level.number || n >= end) continue;
      const Batch whole = batch_of(level, n);
      sizes.insert(part(whole, 0).size);
      sizes.insert(part(whole, asked_.micro_batches - 1).size);
    }
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace unlatch::models
