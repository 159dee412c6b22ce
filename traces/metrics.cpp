#include "traces/metrics.h"

#include <algorithm>

#include "schedules/properties.h"
#include "traces/useful_time.h"

namespace unlatch {

namespace {

RankMetrics rank_metrics(const TaskGraph& graph, const Timeline& timeline,
                         const std::vector<TaskId>& tasks, nanoseconds whole) {
  RankMetrics rank;
  nanoseconds useful{0};
  nanoseconds busy_until{0};
  for (const TaskId id : tasks) {
    const Span span = timeline[id];
    const Op op = graph.task(id).op;
    if (op == Op::recompute) rank.recompute += span.length();
    if (is_useful(op)) useful += span.length();
    rank.busy += std::max(nanoseconds{0}, span.end - std::max(span.start, busy_until));
    busy_until = std::max(busy_until, span.end);
  }
  rank.idle = whole - rank.busy;
  rank.utilization = ratio(useful, whole);
  return rank;
}

nanoseconds span_of(const Timeline& timeline, const std::vector<TaskId>& tasks) {
  if (tasks.empty()) return nanoseconds{0};
  nanoseconds end{0};
  for (const TaskId id : tasks) end = std::max(end, timeline[id].end);
  return end - timeline[tasks.front()].start;  // sorted by start
}

std::vector<StageMetrics> stage_metrics(const TaskGraph& graph) {
  const Properties facts = properties(graph);
  std::vector<StageMetrics> stages;
  for (const Stage k : up_to<Stage>(graph.shape().stages)) {
    stages.push_back({graph.rank_of(k), facts.forward_staleness[k.value],
                      facts.weight_staleness[k.value], facts.updates[k.value]});
  }
  return stages;
}

}  // namespace

TransferTotals transfer_totals(const TaskGraph& graph,
                               const std::vector<std::int64_t>& input_bytes) {
  const bool has_feedback = graph.learning().local_gradients.source == GradientSource::feedback;
  TransferTotals totals;
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (task.op == Op::recompute) continue;  // waits for its F's message, receives none itself
    for (const Edge edge : graph.edges_into(id)) {
      if (!crosses_ranks(graph, edge, task)) continue;
      const Stage upper = std::max(task.stage, graph.task(edge.from()).stage);
      ++totals.count;
      // An output error is no stage's input; a number a class, it is small beside them.
      const bool is_error = has_feedback && edge.kind() == EdgeKind::gradient;
      if (!input_bytes.empty() && !is_error) totals.bytes += input_bytes[upper.value];
    }
  }
  return totals;
}

Metrics metrics(const TaskGraph& graph, const Timeline& timeline,
                const std::vector<std::int64_t>& input_bytes) {
  Metrics all;
  all.makespan = makespan(timeline);
  const std::vector<IdleCauses> causes = idle_by_cause(graph, timeline);
  const std::vector<std::vector<TaskId>> tasks = compute_by_rank(graph, timeline);
  double idle_ns = 0;  // of all ranks: 64 bits of nanoseconds may hold the time of one rank only
  for (const Rank r : up_to<Rank>(graph.ranks())) {
    RankMetrics rank = rank_metrics(graph, timeline, tasks[r.value], all.makespan);
    rank.idle_by_cause = causes[r.value];
    all.ranks.push_back(rank);
    idle_ns += static_cast<double>((all.makespan - rank.busy).count());
    all.longest_span = std::max(all.longest_span, span_of(timeline, tasks[r.value]));
    if (rank.busy > all.ranks[all.bottleneck.value].busy) all.bottleneck = r;
  }
  if (all.makespan > nanoseconds{0}) {
    all.bubble_ratio = idle_ns / (graph.ranks() * static_cast<double>(all.makespan.count()));
  }
  all.span_bubble_ratio =
      ratio(all.longest_span - all.ranks[all.bottleneck.value].busy, all.longest_span);
  all.stages = stage_metrics(graph);
  all.transfers = transfer_totals(graph, input_bytes);
  return all;
}

}  // namespace unlatch
