#include "sim/steady_state.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "sim/simulator.h"

namespace unlatch::sim {

namespace {

constexpr std::int64_t few_tasks = 200'000;
constexpr std::int64_t most_tasks = 1'000'000;
/// Of a run that is still too short for its longest waits: about 2 GB.
constexpr std::int64_t most_tasks_of_deep = 32'000'000;

/// How far apart in batches tasks wait for each other.
struct Reach {
  int back = 0;   ///< furthest earlier batch that a task waits for
  int ahead = 0;  ///< how far a lane runs ahead of a task: so many last batches are the drain

  int window() const { return std::max(1, back); }
  /// Batches of a run in which a repetition can show.
  int batches_to_repeat() const { return ahead + 2 * window() + 2; }
};

/// First and last batch among the tasks that a barrier waits for.
struct BatchRange {
  int first = 0;
  int last = -1;
};

BatchRange before_barrier(const TaskGraph& graph, TaskId barrier) {
  BatchRange range;
  for (const Edge edge : graph.edges_into(barrier)) {
    const Task& from = graph.task(edge.from());
    if (from.op == Op::barrier) continue;
    const int batch = batch_of(graph, from);
    range.first = range.last < range.first ? batch : std::min(range.first, batch);
    range.last = std::max(range.last, batch);
  }
  return range;
}

Reach reach_of(const TaskGraph& graph) {
  Reach reach;
  std::vector<BatchRange> barriers;
  std::vector<int> barrier_index(graph.size(), 0);
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (task.op == Op::barrier) {
      barrier_index[id.value] = static_cast<int>(barriers.size());
      barriers.push_back(before_barrier(graph, id));
      continue;
    }
    const int batch = batch_of(graph, task);
    for (const Edge edge : graph.edges_into(id)) {
      const Task& from = graph.task(edge.from());
      if (from.op == Op::barrier) {
        const BatchRange range = barriers[barrier_index[edge.from().value]];
        if (range.last >= range.first) reach.back = std::max(reach.back, batch - range.first);
        continue;
      }
      const int distance = batch - batch_of(graph, from);
      reach.back = std::max(reach.back, distance);
      if (edge.kind() == EdgeKind::order) reach.ahead = std::max(reach.ahead, -distance);
    }
  }
  return reach;
}

constexpr std::uint64_t mixed(std::uint64_t x) {  // finalizer of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// One number a batch for what its tasks are and when they run, seen from its end.
std::vector<std::uint64_t> fingerprints(const TaskGraph& graph, const Timeline& timeline,
                                        const std::vector<nanoseconds>& ends) {
  std::vector<std::uint64_t> prints(ends.size(), 0);
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (task.op == Op::barrier) continue;  // follows from the tasks it waits for
    const int batch = batch_of(graph, task);
    const std::uint64_t part = task.micro_batch.value % graph.shape().micro_batches;
    const std::uint64_t what = part << 32 | static_cast<std::uint64_t>(task.stage.value) << 8 |
                               static_cast<std::uint64_t>(task.op);
    const Span span = timeline[id];
    const auto start = static_cast<std::uint64_t>((span.start - ends[batch]).count());
    const auto length = static_cast<std::uint64_t>(span.length().count());
    prints[batch] += mixed(mixed(mixed(what + 0x9e3779b97f4a7c15u) + start) + length);
  }
  return prints;
}

/// The smallest c for which the last `window` + c batches up to `last` repeat every c batches, or
/// 0. With a window as long as the furthest edge, all later batches then repeat by induction: every
/// task of batch b waits for tasks of batches b-window and later only.
int cycle_of(const std::vector<std::uint64_t>& prints, const std::vector<nanoseconds>& ends,
             int last, int window) {
  const auto repeats = [&](int b, int c) {
    return prints[b] == prints[b - c] && ends[b] - ends[b - 1] == ends[b - c] - ends[b - c - 1];
  };
  for (int c = 1; last - window - c >= 0; ++c) {
    bool all = true;
    // A long cycle is only believed when a whole one has been seen twice.
    for (int b = last; all && b > last - std::max(window, c); --b) {
      all = b - c - 1 >= 0 && repeats(b, c);
    }
    if (all) return c;
  }
  return 0;
}

/// Where there is nothing between them, the mean of the batches from `begin` on.
SteadyState mean_between(const std::vector<nanoseconds>& ends, int first, int last, int begin = 0) {
  SteadyState steady;
  steady.exact = false;
  steady.batches = static_cast<int>(ends.size());
  if (last > first) {
    steady.batch_period_ns =
        static_cast<double>((ends[last] - ends[first]).count()) / (last - first);
  } else if (last >= begin) {
    steady.batch_period_ns = static_cast<double>(ends[last].count()) / (last + 1 - begin);
  } else if (begin < steady.batches) {
    steady.batch_period_ns = static_cast<double>(ends.back().count()) / (steady.batches - begin);
  }
  return steady;
}

/// The updates of a server before one of its copies has done all its batches.
int updates_with_all_copies(const TaskGraph& graph) {
  std::vector<int> last(graph.shape().stages, 0);
  for (const Task& task : graph.tasks()) {
    if (task.op == Op::update) last[task.stage.value] = task.version;
  }
  return *std::ranges::min_element(last);
}

/// How many batches each copy does while a server takes as many updates as there are copies.
std::vector<double> shares_of_copies(const TaskGraph& graph) {
  std::vector<double> shares(graph.shape().copies, 1.0);
  const int updates =
      is_served(graph.shape(), graph.learning()) ? updates_with_all_copies(graph) : 0;
  if (updates == 0) return shares;
  std::ranges::fill(shares, 0.0);
  for (const Task& task : graph.tasks()) {
    const bool counts = task.op == Op::update && task.version < updates;
    if (counts && graph.shape().model_stage(task.stage) == Stage{0}) {
      shares[graph.shape().copy_of(task.stage)] += static_cast<double>(shares.size()) / updates;
    }
  }
  return shares;
}

/// Without drain the last batches lack their work on some stages.
int complete_batches(const TaskGraph& graph) {
  std::vector<int> work(graph.shape().batches, 0);
  for (const Task& task : graph.tasks()) {
    if (is_compute(task.op) && task.op != Op::forward) ++work[batch_of(graph, task)];
  }
  const int whole = *std::ranges::max_element(work);
  const auto first_partial =
      std::find_if(work.rbegin(), work.rend(), [&](int w) { return w == whole; });
  return static_cast<int>(work.rend() - first_partial);
}

int last_before_drain(const TaskGraph& graph, const Reach& reach) {
  const Shape& shape = graph.shape();
  const int last = is_served(shape, graph.learning())
                       ? updates_with_all_copies(graph) / shape.copies
                   : shape.drain ? shape.batches
                                 : complete_batches(graph);
  return std::max(0, last - 1 - reach.ahead);
}

/// The exact period where the batches before the drain repeat, else the mean over their later half.
SteadyState read_period(const TaskGraph& graph, const Timeline& timeline, const Reach& reach) {
  const std::vector<nanoseconds> ends = batch_ends(graph, timeline);
  const std::vector<std::uint64_t> prints = fingerprints(graph, timeline, ends);
  const int last = last_before_drain(graph, reach);
  // Where transfers share links, those that are missing in the drain leave their mark further back.
  for (const int anchor : {last, last - last / 4}) {
    const int cycle = cycle_of(prints, ends, anchor, reach.window());
    if (cycle == 0) continue;
    SteadyState steady;
    steady.cycle = cycle;
    steady.batches = graph.shape().batches;
    steady.batch_period_ns =
        static_cast<double>((ends[anchor] - ends[anchor - cycle]).count()) / cycle;
    return steady;
  }
  return mean_between(ends, last / 2, last);
}

/// What a batch takes where waits are too long to hold anything up: the work of the busiest lane.
SteadyState period_of_busiest_lane(const TaskGraph& graph, const Timeline& timeline) {
  std::vector<nanoseconds> busy(graph.lanes().size(), nanoseconds{0});
  for (const TaskId id : graph.ids()) busy[graph.task(id).lane] += timeline[id].length();
  SteadyState steady;
  steady.exact = false;
  steady.batches = graph.shape().batches;
  steady.batch_period_ns =
      static_cast<double>(std::ranges::max(busy).count()) / graph.shape().batches;
  return steady;
}

}  // namespace

std::vector<nanoseconds> batch_ends(const TaskGraph& graph, const Timeline& timeline) {
  const int batches = graph.shape().batches;
  std::vector<nanoseconds> updates(batches, nanoseconds{-1});
  std::vector<nanoseconds> backwards(batches, nanoseconds{0});
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (!is_compute(task.op)) continue;
    const bool counts = task.op == Op::update && is_served(graph.shape(), graph.learning());
    const int batch = counts ? task.version / graph.shape().copies : batch_of(graph, task);
    if (task.op == Op::update) {
      updates[batch] = std::max(updates[batch], timeline[id].end);
    } else if (task.op != Op::forward && task.op != Op::recompute) {
      backwards[batch] = std::max(backwards[batch], timeline[id].end);
    }
  }
  for (int b = 0; b < batches; ++b) {
    if (updates[b] < nanoseconds{0}) updates[b] = backwards[b];
  }
  return updates;
}

SteadyState steady_state(const GraphOfBatches& graph_of, const CostModel& costs) {
  int batches = 3;
  while (true) {
    const TaskGraph graph = graph_of(batches);
    const std::int64_t tasks = graph.size();
    // A run shorter than its longest wait (a deep queue) looks steady too soon, so three batches
    // are believed only where they are large, hence of a schedule with many micro-batches.
    if (batches == 3 && 8 * tasks <= few_tasks) {
      batches = 24;
      continue;
    }
    const Reach reach = reach_of(graph);
    const Timeline timeline = run(graph, costs);
    const SteadyState steady = read_period(graph, timeline, reach);
    if (steady.exact) return steady;
    // Before a server a fast copy runs ahead without end, however long the run.
    const bool too_short =
        batches < reach.batches_to_repeat() && !is_served(graph.shape(), graph.learning());
    const std::int64_t tasks_a_batch = tasks / batches;
    int next = 2 * batches;
    if (too_short && tasks_a_batch * reach.batches_to_repeat() <= most_tasks_of_deep) {
      next = std::max(next, reach.batches_to_repeat());
    } else if (batches > 3 && tasks_a_batch * next > most_tasks) {
      return too_short ? period_of_busiest_lane(graph, timeline) : steady;
    }
    batches = next;
  }
}

SteadyState steady_state_of(const TaskGraph& graph, const Timeline& timeline) {
  return read_period(graph, timeline, reach_of(graph));
}

SteadyState mean_period(const TaskGraph& graph, const Timeline& timeline, int done) {
  return mean_between(batch_ends(graph, timeline), done + (graph.shape().batches - done) / 10,
                      last_before_drain(graph, reach_of(graph)), done);
}

std::optional<double> BatchWork::speedup_over_bp(const SteadyState& steady) const {
  if (steady.batch_period_ns <= 0 || bp.count() == 0) return std::nullopt;
  return static_cast<double>(bp.count()) / steady.batch_period_ns;
}

std::optional<double> BatchWork::utilization(const SteadyState& steady) const {
  if (steady.batch_period_ns <= 0) return std::nullopt;
  return static_cast<double>(compute.count()) / (ranks * steady.batch_period_ns);
}

BatchWork batch_work(const TaskGraph& graph, const StageTimes& times,
                     std::span<const double> slow) {
  BatchWork work;
  work.ranks = graph.ranks();
  const int parts = graph.shape().micro_batches / graph.shape().copies;  // of each copy
  const std::vector<double> shares = shares_of_copies(graph);
  double all = 0;
  double of_shares = 0;
  for (const Stage k : up_to<Stage>(times.stages())) {
    const auto both =
        static_cast<double>((times.forward[k.value] + times.backward[k.value]).count());
    const double mine = std::round(parts * both * slow[graph.rank_of(k).value]);
    all += mine;
    of_shares += mine * shares[graph.shape().copy_of(k)];
  }
  work.compute = nanoseconds(std::llround(of_shares));
  for (const nanoseconds t : times.activation_transfer) work.transfers += parts * t;
  for (const nanoseconds t : times.gradient_transfer) work.transfers += parts * t;
  work.bp = nanoseconds(std::llround(all)) + work.transfers;
  return work;
}

}  // namespace unlatch::sim
