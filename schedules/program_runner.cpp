#include "schedules/program_runner.h"

#include <algorithm>
#include <utility>

namespace unlatch {

ProgramRunner::ProgramRunner(const Schedule& schedule, const ProgramFacts& facts, int margin,
                             TaskTaker* taker)
    : schedule_(schedule),
      facts_(facts),
      shape_(schedule.shape()),
      taker_(taker),
      served_(is_served(schedule.shape(), schedule.learning())),
      recomputes_(facts.has(Op::recompute)),
      pops_(facts.has(Op::pop_forward) || facts.has(Op::pop_backward)),
      in_flight_(schedule.shape(), margin),
      stages_(schedule.shape().stages),
      all_reduces_(has_all_reduces(schedule) ? schedule.shape().stages_a_copy() : 0),
      updates_(served_ ? schedule.shape().stages : 0) {
  if (served_) order_served();
}

void ProgramRunner::start() {
  for (const Rank r : up_to<Rank>(shape_.ranks())) {
    Walk& walk = walks_.emplace_back();
    walk.cursor.emplace(schedule_.programs()[r.value].runs());
    walk.rank = r;
    if (!all_reduces_.empty() && agreement().kind != Agreement::Kind::average) {
      walk.scout.emplace(schedule_.programs()[r.value].runs());
    }
    walk.has_recompute_lane = facts_.lane(r, Engine::recompute) >= 0;
    walk.lanes = {static_cast<std::uint16_t>(facts_.lane(r, Engine::compute)),
                  static_cast<std::uint16_t>(facts_.lane(r, Engine::recompute))};
  }
  for (const Stage k : up_to<Stage>(shape_.stages)) {
    stages_[k.value].is_first = shape_.is_first(k);
    stages_[k.value].is_last = shape_.is_last(k);
  }
  walks_.resize(walks_.size() + 1 + all_reduces_.size());
  if (taker_ != nullptr) return;
  const std::size_t all = facts_.tasks + facts_.barriers;
  tasks.reserve(all);
  first_edge.reserve(all + 1);
  edges.reserve(2 * all);
}

/// Each rank's program goes as far as it can; a blocked one waits for one task, update, barrier or
/// AR and is woken by it. Linear in tasks and edges. Stages that wait for nothing from the next one
/// go batch by batch: a device, whose tasks are put in this order, would else keep an output of
/// every batch until the next stage's turn.
bool ProgramRunner::run() {
  start();
  for (int p = static_cast<int>(walks_.size()) - 1; p >= 0; --p) ready_.push_back(p);
  for (const Rank r : up_to<Rank>(shape_.ranks())) {
    Walk& walk = walks_[r.value];
    walk.at_task = step_to_task(walk);
  }
  while (!ready_.empty() && !odd_) {
    const int p = ready_.back();
    ready_.pop_back();
    if (p < barrier_program()) {
      run_rank(p);
    } else if (p == barrier_program()) {
      run_barriers();
    } else {
      run_all_reduces({p - barrier_program() - 1});
    }
  }
  return !odd_ && ended_well();
}

/// Meets barriers and notes phases on the way.
bool ProgramRunner::step_to_task(Walk& walk) {
  while (walk.cursor->next()) {
    const Item& item = walk.cursor->item();
    if (item.kind == Item::Kind::task) return true;
    if (item.kind == Item::Kind::after) {
      walk.phase = item;
      continue;
    }
    const std::size_t ahead = static_cast<std::size_t>(walk.barriers - barriers_done_);
    if (meetings_.size() <= ahead) meetings_.resize(ahead + 1);
    Meeting& meeting = meetings_[ahead];
    for (const Slot end : walk.lane_end) {
      if (end != none) meeting.before.emplace_back(walk.rank, end);
    }
    if (++meeting.reached == shape_.ranks() && ahead == 0) ready_.push_back(barrier_program());
    walk.pending_barrier = walk.barriers++;
  }
  return false;
}

/// Everything that a task takes is inlined here: calls would cost more than what they do.
[[gnu::flatten]] void ProgramRunner::run_rank(int p) {
  Walk& walk = walks_[p];
  const bool by_batch = schedule_.learning().local_gradients.source == GradientSource::local_head;
  while (walk.at_task) {
    const Item& item = walk.cursor->item();
    walk.fits = walk.fits || fits(walk, item);
    row_ = edges.size();
    const bool ready = walk.fits && gather(p, item) && !odd_;
    const bool waits_turn =
        ready && by_batch && lags(p, item.micro_batch.value / shape_.micro_batches);
    if (!ready || waits_turn) {
      edges.resize(row_);
      if (waits_turn) ready_.insert(ready_.begin(), p);
      return;
    }
    const Slot slot = begin_task(walk, item);
    read_version(item, tasks[slot]);
    record(p, item, slot);
    end_task(slot);
    if (odd_) return;
    walk.fits = false;
    walk.at_task = step_to_task(walk);
  }
}

/// Another program that could go on has not begun this batch, which is the next of program p.
bool ProgramRunner::lags(int p, int batch) {
  int& begun = walks_[p].batches_begun;
  const bool other = batch == begun && std::ranges::any_of(ready_, [&](int q) {
                       return walks_[q].batches_begun < batch;
                     });
  if (!other) begun = batch + 1;
  return other;
}

void ProgramRunner::run_barriers() {
  while (!meetings_.empty() && meetings_.front().reached == shape_.ranks()) {
    Meeting meeting = std::move(meetings_.front());
    meetings_.pop_front();
    const Slot slot = new_slot();
    row_ = edges.size();
    if (newest_barrier_ != none) add_edge(newest_barrier_, EdgeKind::order);
    std::ranges::stable_sort(meeting.before, {}, &std::pair<Rank, Slot>::first);
    for (const auto& [rank, before] : meeting.before) add_edge(before, EdgeKind::barrier);
    newest_barrier_ = slot;
    tasks[slot] = {};
    tasks[slot].op = Op::barrier;
    tasks[slot].step = barriers_done_++;
    tasks[slot].lane = facts_.find_lane({Rank{0}, Engine::control, {}});
    end_task(slot);
    ++walks_[barrier_program()].progress;
    wake(std::exchange(barrier_waiters_, none));
  }
}

/// Filled in place: this is done for every task of a schedule.
ProgramRunner::Slot ProgramRunner::begin_task(const Walk& walk, const Item& item) {
  const Slot slot = new_slot();
  Task& task = tasks[slot];
  task.micro_batch = item.micro_batch;
  task.step = item.step;
  task.stage = item.stage;
  task.lane = walk.lanes[item.engine == Engine::recompute ? 1 : 0];
  task.op = item.op;
  task.flags = 0;
  return slot;
}

/// False, and odd, when the task stands where it must not stand, has run before, or lacks what its
/// stage must have done before it.
bool ProgramRunner::fits(const Walk& walk, const Item& item) {
  const Stage k = item.stage;
  const MicroBatch i = item.micro_batch;
  const bool exists =
      i.value >= 0 && i.value < shape_.all_micro_batches() && schedule_.rank_of(k) == walk.rank &&
      (shape_.copies == 1 || item.op == Op::update || shape_.copy_of(k) == shape_.copy_of(i));
  odd_ = odd_ || !exists || !has_inputs(item);
  return !odd_;
}

bool ProgramRunner::has_inputs(const Item& item) {
  const TasksInFlight::Entries& here = in_flight_.at(item.stage, item.micro_batch);
  const StageState& state = stages_[item.stage.value];
  const auto ran = [&here](Kind kind) { return here[kind] >= 0; };
  switch (item.op) {
    case Op::forward:
      return !ran(Kind::forward);
    case Op::backward:
    case Op::backward_input:
      return ran(Kind::forward) && !ran(Kind::input_gradient) && !ran(Kind::weight_gradient);
    case Op::backward_weight:
      return ran(Kind::input_gradient) && !ran(Kind::weight_gradient);
    case Op::recompute:
      return ran(Kind::forward) && !ran(Kind::input_gradient) && !ran(Kind::recompute);
    case Op::update:
      return state.has_gradient && !ran(Kind::update);
    case Op::push_forward:
      return !ran(Kind::push_forward);
    case Op::pop_forward:
      return !state.is_first && !ran(Kind::pop_forward);
    case Op::push_backward:
      return !ran(Kind::push_backward);
    case Op::pop_backward:
      return !state.is_last && !ran(Kind::pop_backward);
    default:
      return false;
  }
}

/// What the task that has just run means for those that follow.
void ProgramRunner::record(int p, const Item& item, Slot slot) {
  Walk& walk = walks_[p];
  const Task& task = tasks[slot];
  walk.newest = slot;
  walk.lane_end[item.engine == Engine::recompute ? 1 : 0] = slot;
  walk.phase.reset();
  if (item.engine == Engine::compute) walk.pending_barrier = none;
  if (walk.has_recompute_lane) {
    walk.newest_row.assign(edges.begin() + static_cast<std::ptrdiff_t>(row_), edges.end());
  }
  ++walk.progress;
  record_version(slot);
  if (shape_.copies > 1) record_copies(p, slot);
  record_gradient(task);
  put(item, slot);
}

void ProgramRunner::record_gradient(const Task& task) {
  StageState& state = stages_[task.stage.value];
  if (task.op == Op::update) {
    state.has_gradient = false;
    ++state.updates;
  } else if (task.op == Op::backward || task.op == Op::backward_weight) {
    state.has_gradient = true;
    if (shape_.drain) return;
    state.last_gradient = std::max(state.last_gradient, number_in_copy(task.micro_batch));
  }
}

/// Counts the micro-batches of one copy of the model only.
int ProgramRunner::number_in_copy(MicroBatch i) const {
  const int share = shape_.micro_batches / shape_.copies;
  return i.value / shape_.micro_batches * share + i.value % share;
}

void ProgramRunner::put(const Item& item, Slot slot) {
  TasksInFlight::Entries& here = in_flight_.at(item.stage, item.micro_batch);
  const auto put_in = [&](Kind kind) {
    const std::int32_t waiting = std::exchange(here[kind], slot);
    if (waiting < none) wake(-2 - waiting);
  };
  switch (item.op) {
    case Op::forward:
      return put_in(Kind::forward);
    case Op::backward:
      put_in(Kind::weight_gradient);
      return put_in(Kind::input_gradient);
    case Op::backward_input:
      return put_in(Kind::input_gradient);
    case Op::backward_weight:
      return put_in(Kind::weight_gradient);
    case Op::recompute:
      changed(here[Kind::forward]).flags |= replayed;
      return put_in(Kind::recompute);
    case Op::update:
      return put_in(Kind::update);
    case Op::push_forward:
      return put_in(Kind::push_forward);
    case Op::pop_forward:
      return put_in(Kind::pop_forward);
    case Op::push_backward:
      return put_in(Kind::push_backward);
    case Op::pop_backward:
      return put_in(Kind::pop_backward);
    default:
      return;
  }
}

void ProgramRunner::wake(int first) {
  for (int p = first; p != none; p = walks_[p].next_waiter) ready_.push_back(p);
}

std::vector<std::int64_t> ProgramRunner::progress() const {
  std::vector<std::int64_t> all;
  for (const Walk& walk : walks_) all.push_back(walk.progress);
  return all;
}

}  // namespace unlatch
