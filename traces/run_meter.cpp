#include "traces/run_meter.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "traces/useful_time.h"

namespace unlatch {

RunMeter::RunMeter(const Shape& shape, std::vector<Rank> rank_of_stage, GradientSource gradients,
                   bool recomputes, MemorySizes sizes)
    : shape_(shape),
      has_feedback_(gradients == GradientSource::feedback),
      recomputes_(recomputes),
      sizes_(std::move(sizes)),
      ranks_(shape.ranks()),
      stages_(shape.stages) {
  for (const Stage k : up_to<Stage>(shape.stages)) {
    stages_[k.value].metrics.rank = rank_of_stage[k.value];
    RankState& rank = ranks_[rank_of_stage[k.value].value];
    ++rank.level.weight_versions;
    rank.level.bytes +=
        bytes_of(sizes_.weight, k) + bytes_of(sizes_.gradient, k) + bytes_of(sizes_.optimizer, k);
  }
  for (RankState& rank : ranks_) {
    rank.level.cause = TaskId{-1};
    rank.memory.peak = rank.level;
    rank.memory.peak_weight_versions = rank.level.weight_versions > 0 ? 1 : 0;
  }
}

void RunMeter::add(const StreamedTask& task, Span span) {
  count_transfers(task);
  if (is_compute(task.task.op) || is_hidden(task.task.op)) meter_lane(task, span);
  if (is_compute(task.task.op)) note_memory(task, span);
  note_staleness(task.task);
  note_past(task, span);
  ++order_;
}

// ---- what waited for what ------------------------------------------------------------------

void RunMeter::note_past(const StreamedTask& task, Span span) {
  if (static_cast<std::size_t>(task.number) >= past_.size()) past_.resize(task.number + 1);
  Past past{.end = span.end, .stage = task.task.stage, .rank = task.rank, .op = task.task.op};
  nanoseconds latest{-1};
  for (const Edge edge : task.waits_for) {
    const Past& from = past_[edge.from().value];
    nanoseconds ready = from.end;
    if (edge.kind() != EdgeKind::order) past.handed_over = std::max(past.handed_over, ready);
    if (edge.kind() == EdgeKind::beside) ready = std::min(ready, span.start);
    if (ready > latest) {
      latest = ready;
      past.path = from.path;
    }
  }
  if (!is_hidden(past.op)) ++past.path;
  if (span.end >= last_end_) {
    last_end_ = span.end;
    last_path_ = past.path;
  }
  past_[task.number] = past;
}

void RunMeter::count_transfers(const StreamedTask& task) {
  if (task.task.op == Op::recompute) return;  // waits for its F's message, receives none itself
  for (const Edge edge : task.waits_for) {
    const bool data = edge.kind() == EdgeKind::activation || edge.kind() == EdgeKind::gradient;
    const Past& from = past_[edge.from().value];
    if (!data || from.rank == task.rank) continue;
    ++transfers_.count;
    const bool is_error = has_feedback_ && edge.kind() == EdgeKind::gradient;
    if (!is_error)
      transfers_.bytes += bytes_of(sizes_.input, std::max(task.task.stage, from.stage));
  }
}

bool RunMeter::is_better(const Wait& wait, const Wait& than) {
  return wait.ready > than.ready || (wait.ready == than.ready && wait.cause < than.cause);
}

RunMeter::Wait RunMeter::wait_of(const StreamedTask& task) const {
  Wait latest;
  for (const Edge edge : task.waits_for) {
    const Cause cause = cause_of(edge.kind());
    if (cause == Cause::none) continue;
    const Past& from = past_[edge.from().value];
    const Wait wait{from.end, cause, is_send(from.op) || joins_copies(from.op), from.handed_over};
    if (is_better(wait, latest)) latest = wait;
  }
  return latest;
}

// ---- busy and idle time --------------------------------------------------------------------

/// A gap is looked at through the bookkeeping tasks before the task that ends it.
void RunMeter::meter_lane(const StreamedTask& task, Span span) {
  const std::size_t lane = task.task.lane;
  if (lane >= hidden_waits_.size()) hidden_waits_.resize(lane + 1);
  Wait wait = wait_of(task);
  if (is_better(hidden_waits_[lane], wait)) wait = hidden_waits_[lane];
  if (is_hidden(task.task.op)) {
    hidden_waits_[lane] = wait;
    return;
  }
  hidden_waits_[lane] = {};
  RankState& rank = ranks_[task.rank.value];
  // R may start later than what follows it in the order, but nothing earlier than this will come:
  // whatever runs beside the compute lane starts with a task of it, or behind one.
  if (task.task.op != Op::recompute) run_until(rank, span.start);
  rank.pieces.push({span, order_, task.task.op, wait});
}

void RunMeter::run_until(RankState& rank, nanoseconds time) {
  while (!rank.pieces.empty() && rank.pieces.top().span.start <= time) {
    close(rank, rank.pieces.top());
    rank.pieces.pop();
  }
  while (!rank.changes.empty() && rank.changes.top().at <= time) {
    apply(rank, rank.changes.top());
    rank.changes.pop();
  }
}

void RunMeter::close(RankState& rank, const Piece& piece) {
  const Span span = piece.span;
  RankMetrics& metrics = rank.metrics;
  const bool first = rank.first_start < nanoseconds{0};
  if (span.start > rank.busy_until) {
    if (first) {
      metrics.idle_by_cause.start += span.start;
    } else {
      attribute(rank, rank.busy_until, piece);
    }
  }
  if (first) rank.first_start = span.start;
  if (piece.op == Op::recompute) metrics.recompute += span.length();
  if (is_useful(piece.op)) rank.useful += span.length();
  metrics.busy += std::max(nanoseconds{0}, span.end - std::max(span.start, rank.busy_until));
  rank.busy_until = std::max(rank.busy_until, span.end);
}

void RunMeter::attribute(RankState& rank, nanoseconds from, const Piece& piece) {
  const nanoseconds to = piece.span.start;
  const Wait& wait = piece.wait;
  IdleCauses& causes = rank.metrics.idle_by_cause;
  nanoseconds on_link{0};
  if (wait.cause != Cause::none && wait.message) {
    on_link = std::max(nanoseconds{0}, std::min(to, wait.ready) - std::max(from, wait.handed_over));
  }
  causes.transfer += on_link;
  idle_of(causes, wait.cause, piece.op) += to - from - on_link;
}

// ---- the whole -----------------------------------------------------------------------------

RunSummary RunMeter::finish() {
  RunSummary summary;
  Metrics& all = summary.metrics;
  all.makespan = last_end_;
  double idle_ns = 0;
  for (const Rank r : up_to<Rank>(shape_.ranks())) {
    RankState& rank = ranks_[r.value];
    run_until(rank, nanoseconds::max());
    rank.metrics.idle = all.makespan - rank.metrics.busy;
    rank.metrics.idle_by_cause.end += all.makespan - rank.busy_until;
    rank.metrics.utilization = ratio(rank.useful, all.makespan);
    all.ranks.push_back(rank.metrics);
    idle_ns += static_cast<double>(rank.metrics.idle.count());
    if (rank.first_start >= nanoseconds{0}) {
      all.longest_span = std::max(all.longest_span, rank.busy_until - rank.first_start);
    }
    if (rank.metrics.busy > all.ranks[all.bottleneck.value].busy) all.bottleneck = r;
    summary.memory.push_back(std::move(rank.memory));
  }
  if (all.makespan > nanoseconds{0}) {
    all.bubble_ratio = idle_ns / (shape_.ranks() * static_cast<double>(all.makespan.count()));
  }
  all.span_bubble_ratio =
      ratio(all.longest_span - all.ranks[all.bottleneck.value].busy, all.longest_span);
  for (const StageState& stage : stages_) all.stages.push_back(stage.metrics);
  all.transfers = transfers_;
  summary.tasks = order_;
  summary.critical_path = last_path_;
  return summary;
}

}  // namespace unlatch
