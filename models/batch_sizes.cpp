#include "models/batch_sizes.h"

#include <algorithm>
#include <functional>
#include <set>

#include "models/specification.h"
#include "schedules/error.h"

namespace unlatch::models {

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
  const bool rest = asked_.uneven && samples % size >= parts;
  per_epoch_ = samples / size + (rest ? 1 : 0);
  if (asked_.ramp) climb();
}

int BatchSizes::size_on_ramp(int number) const {
  const std::int64_t grown =
      asked_.ramp->start + std::int64_t{number} / asked_.ramp->every * asked_.ramp->step;
  return static_cast<int>(std::min<std::int64_t>(grown, asked_.batch_size));
}

void BatchSizes::climb() {
  int epoch = 0, first = 0;
  for (int n = 0;; ++n) {
    const int wanted = size_on_ramp(n);
    const int left = samples_ - first;
    const int least = asked_.uneven ? asked_.micro_batches : wanted;
    if (left < least) {
      ++epoch;
      first = 0;
    }
    if (first == 0 && wanted == asked_.batch_size) break;  // from here on every epoch is the same
    const int size = std::min(wanted, samples_ - first);
    ramp_.push_back({epoch, first, size});
    first += size;
  }
  epoch_behind_ramp_ = epoch;
}

BatchSizes::Batch BatchSizes::batch(int number) const {
  const int on_ramp = static_cast<int>(ramp_.size());
  if (number < on_ramp) return ramp_[static_cast<std::size_t>(number)];
  const int behind = number - on_ramp;
  const int first = behind % per_epoch_ * asked_.batch_size;
  return {.epoch = epoch_behind_ramp_ + behind / per_epoch_,
          .first = first,
          .size = std::min(asked_.batch_size, samples_ - first)};
}

/// The first ones hold a sample more.
BatchSizes::Part BatchSizes::part(const Batch& batch, int number) const {
  const int size = batch.size / asked_.micro_batches, more = batch.size % asked_.micro_batches;
  return {.first = number * size + std::min(number, more), .size = size + (number < more ? 1 : 0)};
}

int BatchSizes::batches_of_epochs(int epochs) const {
  const auto later = std::ranges::lower_bound(ramp_, epochs, {}, &Batch::epoch);
  const auto on_ramp = static_cast<int>(later - ramp_.begin());
  return on_ramp + std::max(epochs - epoch_behind_ramp_, 0) * per_epoch_;
}

std::vector<int> BatchSizes::part_sizes(int batches) const {
  if (!asked_.uneven && !asked_.ramp) return {asked_.batch_size / asked_.micro_batches};
  std::set<int, std::greater<>> sizes;
  const int varied = static_cast<int>(ramp_.size()) + per_epoch_;
  for (int n = 0; n < std::min(batches, varied); ++n) {
    const Batch whole = batch(n);
    sizes.insert(part(whole, 0).size);
    sizes.insert(part(whole, asked_.micro_batches - 1).size);
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace unlatch::models
