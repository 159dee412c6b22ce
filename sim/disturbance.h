// Disturbance: everything that makes a run differ from its costs: slow ranks and links, stated
// pauses, stragglers at random.
#pragma once

#include <string_view>
#include <vector>

#include "sim/stragglers.h"

namespace unlatch::sim {

/// --slow RANK:FACTOR, a rank that is slow for the whole run.
struct SlowRank {
  Rank rank;
  double factor = 1;
  friend bool operator==(const SlowRank&, const SlowRank&) = default;
};

/// --slow-link A-B:FACTOR, messages between two ranks, both ways, that are slow for the whole run.
struct SlowLink {
  Rank a, b;  ///< a < b
  double factor = 1;
  bool joins(Rank from, Rank to) const { return (from == a && to == b) || (from == b && to == a); }
  friend bool operator==(const SlowLink&, const SlowLink&) = default;
};

/// --pause RANK:AT:TIME, a rank that stands still once.
struct RankPause {
  Rank rank;
  Pause pause;
  friend bool operator==(const RankPause&, const RankPause&) = default;
};

/// Each throws Error unless the text has that form, ranks are below `ranks` and factors and times
/// greater than 0. `setting` is what messages call it.
SlowRank parse_slow(std::string_view text, int ranks, std::string_view setting = "--slow");
SlowLink parse_slow_link(std::string_view text, int ranks,
                         std::string_view setting = "--slow-link");
RankPause parse_pause(std::string_view text, int ranks, std::string_view setting = "--pause");
/// One factor a rank, 1 where nothing is said; a rank named twice is an error.
std::vector<double> slow_factors(const std::vector<SlowRank>& slow, int ranks,
                                 std::string_view setting = "--slow");
/// Throws Error when two of them name the same ranks.
void require_distinct(const std::vector<SlowLink>& links, std::string_view setting = "--slow-link");

struct Disturbance {
  std::vector<double> slow = {};  ///< one factor a rank; empty: none is slow
  std::vector<SlowLink> slow_links = {};
  std::vector<RankPause> pauses = {};
  std::vector<Straggler> stragglers = {};  ///< their factors multiply
  std::vector<int> node_of_rank = {};      ///< on a cluster
  std::uint64_t seed = 0;

  bool random() const { return !stragglers.empty(); }
  double slow_factor(Rank rank) const;
  /// Of the link between two ranks.
  double slow_factor(Rank from, Rank to) const;
  /// True when it changes nothing: no part of it, or factors of 1.
  bool none() const;
  /// True when messages take part in it.
  bool touches_links() const;
};

}  // namespace unlatch::sim
