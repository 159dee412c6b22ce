// Search: of many ways to train, each with its best split, what they cost and which win.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "schedules/registry.h"
#include "sim/batch_time.h"
#include "sim/pareto.h"
#include "sim/placement_search.h"
#include "sim/split_search.h"
#include "sim/stage_costs.h"
#include "traces/memory.h"

namespace unlatch::sim {

/// What the stages of one split cost.
struct SplitCosts {
  StageTimes times;   ///< of all copies of the model
  MemorySizes sizes;  ///< likewise
  std::shared_ptr<const Traffic> traffic = nullptr;
};

/// Costs of a model's layers under one schedule, on one placing of its ranks.
struct LayerCosts {
  std::vector<LayerFacts> layers;  ///< on each kind of device
  std::vector<int> kinds = {};     ///< of each stage of all copies; empty: all are of the first
  std::vector<Way> ways;           ///< from each stage of the model to the next: stages - 1
  double overlap = 0;              ///< how much of R hides beside F
  bool floor_holds = false;        ///< stages cost at least what their layers do
  std::optional<Split> given;      ///< asked for: no other is tried
  std::function<SplitCosts(const Split&)> of;
};

/// Where the ranks sit, and what that makes of the costs.
struct Placing {
  std::string how;
  std::vector<int> devices;             ///< by rank; empty where costs do not depend on it
  std::vector<std::int64_t> room = {};  ///< bytes that each rank may keep; empty: any number
  /// For a graph without transfers. Throws Error where there are none.
  std::function<LayerCosts(const TaskGraph& tasks)> costs;
};

/// Where ranks may sit besides.
struct Seating {
  Sites sites;
  std::function<Placing(const Devices& devices)> placing;
};

/// One way to train but for split and placing, of which the best are found.
struct Candidate {
  ScheduleSpec spec;
  Shape shape;  ///< as asked: of one replica, with their number
  std::vector<Placing> placings;
  std::optional<Seating> seating = {};
  std::string impossible = {};  ///< why there is nothing to try; empty otherwise
};

struct SearchLimits {
  std::optional<std::int64_t> memory;  ///< bytes that a rank may keep, whatever its room
  std::optional<int> staleness;        ///< most forward staleness, in updates
  int splits = SplitLimits{}.most;     ///< to simulate for a candidate on a placing, about
  std::int64_t tasks = 4'000'000;      ///< to simulate to place a candidate with a seating, about
};

enum class Refusal : std::uint8_t { shape, costs, memory, staleness };
/// "over the memory limit", and so on.
std::string_view name(Refusal refusal);

/// What came of a candidate. Of a refused one only the reason counts.
struct Finding {
  std::optional<Refusal> refused;
  std::string reason;
  Shape shape = {};  ///< the schedule's own
  Options options = {};
  Placing placing = {};       ///< the best one
  int placings = 0;           ///< that were simulated
  bool all_placings = false;  ///< none is better with any of the splits that were simulated for it
  bool all_splits = false;    ///< nor with any other
  SplitAnswer split = {};
  int simulated = 0;  ///< splits, on all placings
  Price price = {};
  int weight_staleness = 0;
  std::optional<double> utilization;
  BatchTime time = {};
  bool on_front = false;  ///< of all findings
};

/// One finding a candidate, in their order, on all cores; the same whatever their number. The best
/// split and placing have the least SplitScore: of the placings given, and for a candidate that has
/// a seating of what PlacingSearch looks at. A candidate is refused where no placing will do.
std::vector<Finding> search(const std::vector<Candidate>& candidates, const SearchLimits& limits);

/// Those not refused, best first: by period, peak memory, staleness, then the order given.
std::vector<std::size_t> ranking(const std::vector<Finding>& findings);

}  // namespace unlatch::sim
