// StragglerCosts: the costs of one disturbed run, as a cost model over another.
#pragma once

#include <optional>
#include <vector>

#include "sim/disturbance.h"
#include "sim/stage_costs.h"

namespace unlatch::sim {

/// To the nearest nanosecond; throws Error above 126 years.
nanoseconds stretched(nanoseconds t, double factor);

/// Of what a stage sends. Direct feedback leaves the last stage once for all others: on its link
/// back.
Rank receiver_of(const TaskGraph& graph, Op send, Stage from);

/// The two ends of a lane that is a link, else nothing. Servers and all-reduces have numbers above
/// those of all ranks.
std::optional<StragglerPlace> ends_of_link(const TaskGraph& graph, const Lane& lane);

/// Times whose transfers are those over slow links; stages sit where those of `graph` do.
StageTimes with_slow_links(StageTimes times, const TaskGraph& graph,
                           const Disturbance& disturbance);

/// Multiplies F, R, B, I, W and U of each local step of each rank by the rank's slow factor and one
/// draw of each straggler, messages by those of their link, to the nearest nanosecond; ranks and
/// links stand still in their pauses.
class StragglerCosts final : public CostModel {
 public:
  /// Costs of that graph in random run `run`. Throws Error where ranks of a node are to share draws
  /// and nothing says which they are.
  StragglerCosts(const StageCosts& costs, const TaskGraph& graph, const Disturbance& disturbance,
                 int run);
  /// The same without a graph; stage k is on ranks[k]. Throws Error for pauses and for draws of
  /// links, which want the lanes of a graph.
  StragglerCosts(const StageCosts& costs, const std::vector<Rank>& ranks,
                 const Disturbance& disturbance, int run);

  nanoseconds duration(const Task& task) const override;
  double overlap(Stage k) const override { return overlap_[k.value]; }
  /// Without random draws the costs are as fixed as those they wrap.
  const CostTable* table() const override { return draws_.empty() ? &table_ : nullptr; }
  const Traffic* traffic() const override { return traffic_; }
  int workers() const override { return workers_; }
  const Pauses* pauses() const override { return pauses_.places.empty() ? nullptr : &pauses_; }

 private:
  /// What both have in common.
  StragglerCosts(const StageCosts& costs, const Disturbance& disturbance, int run);

  /// One straggler, with a seed of its own.
  struct Draw {
    Straggler straggler;
    std::uint64_t seed = 0;
  };
  /// Whom the tasks of a lane are slowed with: a rank or a link.
  struct LanePlace {
    bool is_link = false;
    bool is_barrier = false;
    StragglerPlace place{};
    double slow = 1;
  };
  void find_lanes(const TaskGraph& graph, const Disturbance& disturbance);
  void slow_down(const std::vector<Rank>& ranks, const Disturbance& disturbance);
  PauseSources pauses_of(const LanePlace& lane, const Disturbance& disturbance) const;
  void find_pauses(const Disturbance& disturbance);
  /// Nothing where the straggler leaves that lane alone.
  std::optional<StragglerPlace> drawn_for(const Straggler& straggler, const LanePlace& lane) const;

  const Traffic* traffic_;  ///< of the costs it wraps
  int workers_;             ///< of them too
  CostTable table_;         ///< slow factors included where nothing is drawn
  std::vector<double> overlap_;
  std::vector<LanePlace> lanes_;   ///< of the graph
  std::vector<LanePlace> stages_;  ///< without a graph
  std::vector<int> node_of_rank_;
  std::vector<Draw> draws_;  ///< of factors
  Pauses pauses_;
  int run_;
};

}  // namespace unlatch::sim
