// Stragglers: ranks that are slow for the whole run or at random, as a cost model over another.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/stage_costs.h"

namespace unlatch::sim {

/// --slow RANK:FACTOR, a rank that is slow for the whole run.
struct SlowRank {
  Rank rank;
  double factor = 1;
  friend bool operator==(const SlowRank&, const SlowRank&) = default;
};

/// Throws Error unless the text is RANK:FACTOR, rank below `ranks`, factor > 0.
SlowRank parse_slow(std::string_view text, int ranks);
/// One factor a rank, 1 where nothing is said; a rank named twice is an error.
std::vector<double> slow_factors(const std::vector<SlowRank>& slow, int ranks);

/// --straggler: how a factor is drawn for each (rank, local step).
struct Straggler {
  enum class Kind {
    none,
    random,     ///< `factor` with `probability`, else 1
    lognormal,  ///< exp(sigma z), z standard normal: median 1
    gamma,      ///< gamma distributed with mean 1 and that shape: deviation 1/sqrt(shape)
    empirical,  ///< one of the factors of a file, each as likely as the others
  } kind = Kind::none;
  double probability = 1.0 / 3;
  double factor = 1.5;
  double sigma = 0.2;
  double shape = 10;
  std::vector<double> factors = {};  ///< of the file

  /// "random:probability=0.3333,factor=1.5", "lognormal:sigma=0.2", "gamma:shape=10",
  /// "empirical:file=PATH" (one factor a line, greater than 0). Throws Error with the valid kinds
  /// and keys, or the line that holds no factor.
  static Straggler parse(std::string_view text);
  bool random() const { return kind != Kind::none; }
  /// The factor of one local step: a function of the arguments alone, so the order in which tasks
  /// are looked at never matters, and two schedules see the same luck.
  double draw(std::uint64_t seed, int run, Rank rank, int step) const;
};

/// Multiplies F, R, B, I, W and U of each local step of each rank by slow[rank] x one draw, to the
/// nearest nanosecond; transfers stay as they are.
class StragglerCosts final : public CostModel {
 public:
  StragglerCosts(const StageCosts& costs, const TaskGraph& graph, std::vector<double> slow,
                 Straggler straggler, std::uint64_t seed, int run);
  /// The same without a graph; stage k is on rank_of_stage[k].
  StragglerCosts(const StageCosts& costs, std::vector<Rank> rank_of_stage, std::vector<double> slow,
                 Straggler straggler, std::uint64_t seed, int run);

  nanoseconds duration(const Task& task) const override;
  double overlap(Stage k) const override { return overlap_[k.value]; }
  /// Without random draws the costs are as fixed as those they wrap.
  const CostTable* table() const override { return straggler_.random() ? nullptr : &table_; }
  const Traffic* traffic() const override { return traffic_; }

 private:
  const Traffic* traffic_;  ///< of the costs it wraps
  CostTable table_;         ///< slow factors included where nothing is drawn
  std::vector<double> overlap_;
  std::vector<Rank> rank_of_stage_;
  std::vector<double> slow_;
  Straggler straggler_;
  std::uint64_t seed_;
  int run_;
};

}  // namespace unlatch::sim
