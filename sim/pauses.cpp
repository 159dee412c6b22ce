#include "sim/pauses.h"

#include <algorithm>
#include <cmath>

#include "schedules/error.h"
#include "sim/simulator.h"

namespace unlatch::sim {
namespace {

std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  require(!__builtin_add_overflow(a, b, &result),
          "with its pauses the run would last longer than 292 years; give shorter pauses or costs");
  return result;
}

}  // namespace

Clock::Clock(const PauseSources& sources) {
  for (const Pause& pause : sources.stated) {
    Source& source = sources_.emplace_back(Source{.pauses = {}, .gaps = Stream(0), .next = {}});
    source.next = {pause.at.count(), sum(pause.at.count(), pause.length.count())};
  }
  for (const RandomPauses& random : sources.random) {
    advance(
        sources_.emplace_back(Source{.pauses = random, .gaps = Stream(random.seed), .next = {}}));
  }
}

/// A source of one stated pause has no gap to a next one.
void Clock::advance(Source& source) {
  const auto every = static_cast<double>(source.pauses.every.count());
  const double gap = -every * std::log(uniform(source.gaps.next()));
  constexpr double most_ns = 9e18;
  Ns from = 0;
  source.ended = every == 0 || gap > most_ns ||
                 __builtin_add_overflow(source.next.to, std::llround(gap), &from);
  if (source.ended) return;
  source.next = {from, sum(from, source.pauses.length.count())};
}

Clock::Source* Clock::earliest() {
  Source* first = nullptr;
  for (Source& source : sources_) {
    if (source.ended) continue;
    if (first == nullptr || source.next.from < first->next.from) first = &source;
  }
  return first;
}

void Clock::take(Source& source) {
  const Still& next = source.next;
  if (!stills_.empty() && next.from <= stills_.back().to) {
    stills_.back().to = std::max(stills_.back().to, next.to);
  } else {
    constexpr std::size_t most = 1'000'000;
    require(stills_.size() < most,
            "a rank or link stands still more than {} times in a run; give pauses that come less "
            "often, or shorter costs",
            most);
    stills_.push_back({next.from, next.to, last_own() + next.from - last_end()});
  }
  advance(source);
}

/// Also those that only make the last one longer.
void Clock::find_until(Ns at) {
  for (Source* next = earliest(); next != nullptr; next = earliest()) {
    if (next->next.from > std::max(at, last_end())) return;
    take(*next);
  }
}

void Clock::find_until_own(Ns own) {
  for (Source* next = earliest(); next != nullptr; next = earliest()) {
    if (last_own() + std::max<Ns>(0, next->next.from - last_end()) > own) return;
    take(*next);
  }
}

nanoseconds Clock::own(nanoseconds at) {
  find_until(at.count());
  const auto after = std::ranges::upper_bound(stills_, at.count(), {}, &Still::from);
  if (after == stills_.begin()) return at;
  const Still& last = *(after - 1);
  return nanoseconds(last.own + std::max<Ns>(0, at.count() - last.to));
}

nanoseconds Clock::first_at(nanoseconds own) {
  find_until_own(own.count());
  const auto after = std::ranges::lower_bound(stills_, own.count(), {}, &Still::own);
  if (after == stills_.begin()) return own;
  const Still& last = *(after - 1);
  return nanoseconds(sum(last.to, own.count() - last.own));
}

nanoseconds Clock::last_at(nanoseconds own) {
  find_until_own(own.count());
  const auto after = std::ranges::upper_bound(stills_, own.count(), {}, &Still::own);
  if (after == stills_.begin()) return own;
  const Still& last = *(after - 1);
  return nanoseconds(sum(last.to, own.count() - last.own));
}

LaneClocks::LaneClocks(const Pauses& pauses) : place_of_lane_(pauses.place_of_lane) {
  for (const PauseSources& place : pauses.places) clocks_.emplace_back(place);
}

Clock* LaneClocks::clock_of(const Task& task) {
  const int place = place_of_lane_[task.lane];
  return place < 0 ? nullptr : &clocks_[static_cast<std::size_t>(place)];
}

Span LaneClocks::run(const Task& task, nanoseconds ready, nanoseconds length) {
  if (length == nanoseconds{0}) return {ready, ready};
  Clock* const clock = clock_of(task);
  if (clock == nullptr) return {ready, nanoseconds(sum(ready.count(), length.count()))};
  const std::int64_t end = sum(clock->own(ready).count(), length.count());
  return {ready, clock->first_at(nanoseconds(end))};
}

Span LaneClocks::run_beside(const Task& task, nanoseconds ready, nanoseconds recompute,
                            const Span& forward, double overlap) {
  Clock* const clock = clock_of(task);
  if (clock == nullptr) return recompute_beside(ready, recompute, forward, overlap);
  const Span taken = recompute_beside(
      clock->own(ready), recompute, {clock->own(forward.start), clock->own(forward.end)}, overlap);
  const nanoseconds end = clock->first_at(taken.end);
  return {std::min(end, clock->last_at(taken.start)), end};
}

}  // namespace unlatch::sim
