// Stragglers: how --straggler slows ranks, nodes or links at random, as values and their draws.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/pauses.h"

namespace unlatch::sim {

/// Who a draw is for: a rank, a node, or a link in one direction.
struct StragglerPlace {
  static constexpr int none = -1;
  int from = 0;   ///< rank or node; of a link the rank that sends
  int to = none;  ///< of a link: the rank that receives
  friend auto operator<=>(const StragglerPlace&, const StragglerPlace&) = default;
};

/// --straggler: how a factor is drawn for each (rank, local step), or when a rank stands still.
struct Straggler {
  enum class Kind {
    random,     ///< `factor` with `probability`, else 1
    lognormal,  ///< exp(sigma z), z standard normal: median 1
    gamma,      ///< gamma distributed with mean 1 and that shape: deviation 1/sqrt(shape)
    empirical,  ///< one of the factors of a file, each as likely as the others
    pause,      ///< stands still for `time`, after running for `every` on average (exponential)
  } kind = Kind::random;
  enum class On {
    ranks,  ///< each rank has draws of its own
    nodes,  ///< the ranks of a node share them
    links,  ///< each link and direction has them, and ranks none
  } on = On::ranks;
  double probability = 1.0 / 3;
  double factor = 1.5;
  double sigma = 0.2;
  double shape = 10;
  std::vector<double> factors = {};  ///< of the file
  nanoseconds every{0};              ///< of pauses
  nanoseconds time{0};
  int node = 0;  ///< ranks a node; 0: the ranks that the cluster's file has on one

  /// "random:probability=0.3333,factor=1.5", "lognormal:sigma=0.2", "gamma:shape=10",
  /// "empirical:file=PATH" (one factor a line, greater than 0), "pause:every=1s,time=20ms"; with
  /// on=ranks|nodes|links, and node=N, which means on=nodes. Throws Error with the valid kinds and
  /// keys, or the line that holds no factor; `setting` is what it calls the text.
  static Straggler parse(std::string_view text, std::string_view setting = "--straggler");

  /// The factor of one local step (1 for pauses): a function of the arguments alone, so the order
  /// in which tasks are looked at never matters, and two schedules see the same luck.
  double draw(std::uint64_t seed, int run, StragglerPlace place, int step) const;
  double draw(std::uint64_t seed, int run, Rank rank, int step) const {
    return draw(seed, run, StragglerPlace{.from = rank.value}, step);
  }
  /// When that place stands still in one run.
  RandomPauses pauses(std::uint64_t seed, int run, StragglerPlace place) const;
};

}  // namespace unlatch::sim
