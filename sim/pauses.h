// Pauses: times in which a rank or a link stands still, and the clock that stands still with it.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/task.h"
#include "sim/random_bits.h"
#include "traces/timeline.h"

namespace unlatch::sim {

struct Pause {
  nanoseconds at{0};
  nanoseconds length{0};
  friend bool operator==(const Pause&, const Pause&) = default;
};

/// Pauses of one length that come at random: the time from the end of one to the next is
/// exponentially distributed with mean `every`.
struct RandomPauses {
  nanoseconds every{0};
  nanoseconds length{0};
  std::uint64_t seed = 0;
};

/// All pauses of one rank or link; they may overlap.
struct PauseSources {
  std::vector<Pause> stated = {};
  std::vector<RandomPauses> random = {};
  bool empty() const { return stated.empty() && random.empty(); }
};

/// Which lanes of a graph stand still, and when.
struct Pauses {
  std::vector<PauseSources> places;  ///< ranks and links
  std::vector<int> place_of_lane;    ///< -1: never stands still
};

/// Its own time is the time in which it does not stand still; the pauses are found as far as
/// anybody asks. Times are asked for in any order.
class Clock {
 public:
  explicit Clock(const PauseSources& sources);
  /// Own time at a moment.
  nanoseconds own(nanoseconds at);
  /// The first moment, and the last, with that own time.
  nanoseconds first_at(nanoseconds own);
  nanoseconds last_at(nanoseconds own);

 private:
  using Ns = std::int64_t;
  struct Still {
    Ns from = 0, to = 0;
    Ns own = 0;
  };
  struct Source {
    RandomPauses pauses;
    Stream gaps;
    Still next;
    bool ended = false;
  };
  static void advance(Source& source);
  /// The next pause of any source, or null.
  Source* earliest();
  void find_until(Ns at);
  void find_until_own(Ns own);
  void take(Source& source);
  Ns last_end() const { return stills_.empty() ? 0 : stills_.back().to; }
  Ns last_own() const { return stills_.empty() ? 0 : stills_.back().own; }

  std::vector<Still> stills_;  ///< ascending, apart
  std::vector<Source> sources_;
};

/// Runs tasks on the lanes of a graph: one that meets a pause lasts that much longer.
class LaneClocks {
 public:
  explicit LaneClocks(const Pauses& pauses);
  Span run(const Task& task, nanoseconds ready, nanoseconds length);
  /// R beside F (see recompute_beside); both are on the same rank.
  Span run_beside(const Task& task, nanoseconds ready, nanoseconds recompute, const Span& forward,
                  double overlap);

 private:
  Clock* clock_of(const Task& task);
  std::vector<Clock> clocks_;
  const std::vector<int>& place_of_lane_;
};

}  // namespace unlatch::sim
