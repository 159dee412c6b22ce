// Graphs made task by task, and timelines at unit cost, for tests of what reads them.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "schedules/graph.h"
#include "traces/timeline.h"

namespace unlatch::testing {

/// A graph and its timeline, task by task in topological order; stage k is on rank k mod ranks.
class HandMade {
 public:
  explicit HandMade(Shape shape) {
    parts_.schedule = "hand-made";
    parts_.shape = shape;
    for (int k = 0; k < shape.stages; ++k) parts_.rank_of_stage.push_back({k % shape.ranks()});
    parts_.first_edge = {0};
  }

  HandMade& lane(int rank, Engine engine = Engine::compute, int boundary = 0) {
    parts_.lanes.push_back({{rank}, engine, {boundary}});
    return *this;
  }

  TaskId add(Op op, int stage, int micro_batch, int lane, nanoseconds start, nanoseconds end,
             std::initializer_list<Edge> edges = {}) {
    Task task;
    task.op = op;
    task.stage = {stage};
    task.micro_batch = {micro_batch};
    task.lane = static_cast<std::uint16_t>(lane);
    if (op == Op::update) task.version = micro_batch;
    parts_.tasks.push_back(task);
    parts_.edges.insert(parts_.edges.end(), edges);
    parts_.first_edge.push_back(static_cast<std::uint32_t>(parts_.edges.size()));
    timeline.spans.push_back({start, end});
    return {static_cast<int>(parts_.tasks.size()) - 1};
  }

  HandMade& named(std::string schedule) {
    parts_.schedule = std::move(schedule);
    return *this;
  }

  TaskGraph graph() const { return TaskGraph(parts_); }

  Timeline timeline;

 private:
  TaskGraph::Parts parts_;
};

/// Two ranks, one micro-batch: F and B of both stages and an update of stage 0, 1 unit each.
inline HandMade two_ranks(nanoseconds unit) {
  HandMade made(Shape{.stages = 2});
  made.lane(0).lane(1);
  const TaskId f0 = made.add(Op::forward, 0, 0, 0, 0 * unit, 1 * unit);
  const TaskId f1 =
      made.add(Op::forward, 1, 0, 1, 1 * unit, 2 * unit, {{f0, EdgeKind::activation}});
  const TaskId b1 = made.add(Op::backward, 1, 0, 1, 2 * unit, 3 * unit, {{f1, EdgeKind::order}});
  const TaskId b0 = made.add(Op::backward, 0, 0, 0, 3 * unit, 4 * unit,
                             {{f0, EdgeKind::order}, {b1, EdgeKind::gradient}});
  made.add(Op::update, 0, 0, 0, 4 * unit, 4 * unit, {{b0, EdgeKind::order}});
  return made;
}

/// Lengths of tasks; hidden and other ones take no time.
struct UnitCosts {
  nanoseconds forward{1};
  nanoseconds backward{2};
  nanoseconds recompute{1};
};

/// Every task as early as its edges allow.
inline Timeline earliest(const TaskGraph& graph, UnitCosts costs = {}) {
  Timeline timeline;
  timeline.spans.resize(static_cast<std::size_t>(graph.size()));
  for (const TaskId id : graph.ids()) {
    nanoseconds start{0};
    for (const Edge edge : graph.edges_into(id)) {
      const Span& before = timeline[edge.from()];
      start = std::max(start, edge.kind() == EdgeKind::beside ? before.start : before.end);
    }
    const Op op = graph.task(id).op;
    const nanoseconds length = op == Op::forward           ? costs.forward
                               : op == Op::backward        ? costs.backward
                               : op == Op::backward_input  ? costs.backward - costs.backward / 2
                               : op == Op::backward_weight ? costs.backward / 2
                               : op == Op::recompute       ? costs.recompute
                                                           : nanoseconds(0);
    timeline[id] = {start, start + length};
  }
  return timeline;
}

/// An empty folder of its own that goes away with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "unlatch-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace unlatch::testing
