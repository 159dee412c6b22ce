// What the tests of the simulator and of the metrics share: schedules by name, costs, graphs by
// hand.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedules/error.h"
#include "schedules/registry.h"
#include "schedules/transfers.h"
#include "sim/simulator.h"
#include "sim/stage_costs.h"
#include "sim/steady_state.h"

namespace unlatch::sim {

/// The message of the Error that a call throws, or "no error".
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline nanoseconds ms(double t) { return nanoseconds(std::int64_t(t * 1e6 + 0.5)); }

inline StageCosts costs_of(const CostSettings& settings, int stages) {
  return StageCosts(stage_times(settings, stages));
}

/// Costs in milliseconds that fit a schedule without micro-batches: F=1, B=2, R=1.
inline StageCosts unit_costs(int stages) { return costs_of({}, stages); }

inline TaskGraph graph_of(std::string_view spec, const Shape& shape, const Links& links = {}) {
  return with_transfers(ScheduleSpec::parse(spec).make(shape).build(), links);
}

inline GraphOfBatches any_batches(std::string_view spec, Shape shape, const Links& links = {}) {
  return [spec = std::string(spec), shape, links](int batches) mutable {
    shape.batches = batches;
    return graph_of(spec, shape, links);
  };
}

/// Steady batch period in milliseconds.
inline double period_ms(std::string_view spec, const Shape& shape, const StageCosts& costs) {
  return steady_state(any_batches(spec, shape, costs.links()), costs).batch_period_ns / 1e6;
}

/// Builds a graph task by task: tasks in the order of the calls, lane predecessors added.
class HandGraph {
 public:
  explicit HandGraph(const Shape& shape) {
    parts_.schedule = "by hand";
    parts_.shape = shape;
    parts_.first_edge.push_back(0);
    for (int k = 0; k < shape.stages; ++k) parts_.rank_of_stage.push_back({k % shape.ranks()});
  }
  TaskId add(Op op, int stage, int micro_batch, std::vector<Edge> edges = {},
             Engine engine = Engine::compute, int step = 0) {
    const Lane lane{parts_.rank_of_stage[stage], engine, {}};
    const int id = static_cast<int>(parts_.tasks.size());
    const std::size_t place = lane_place(lane);
    if (ends_[place] >= 0) parts_.edges.emplace_back(TaskId{ends_[place]}, EdgeKind::order);
    parts_.edges.insert(parts_.edges.end(), edges.begin(), edges.end());
    ends_[place] = id;
    Task task;
    task.op = op;
    task.stage = {stage};
    task.micro_batch = {micro_batch};
    task.step = step;
    task.lane = static_cast<std::uint16_t>(place);
    parts_.tasks.push_back(task);
    parts_.first_edge.push_back(static_cast<std::uint32_t>(parts_.edges.size()));
    return {id};
  }
  TaskGraph build() { return TaskGraph(std::move(parts_)); }

 private:
  std::size_t lane_place(const Lane& lane) {
    for (std::size_t place = 0; place < parts_.lanes.size(); ++place) {
      if (parts_.lanes[place] == lane) return place;
    }
    parts_.lanes.push_back(lane);
    ends_.push_back(-1);
    return parts_.lanes.size() - 1;
  }
  TaskGraph::Parts parts_;
  std::vector<int> ends_;
};

}  // namespace unlatch::sim
