// What a task waits for: the mathematics, its lane, barriers, phases and places in queues.
#include <utility>

#include "schedules/program_runner.h"

namespace unlatch {
namespace {

using Kind = TasksInFlight::Kind;

/// Where the task that an after() names is found; nothing for what no program holds.
std::optional<Kind> kind_of(Op op) {
  switch (op) {
    case Op::forward:
      return Kind::forward;
    case Op::backward:
    case Op::backward_input:
      return Kind::input_gradient;
    case Op::backward_weight:
      return Kind::weight_gradient;
    case Op::recompute:
      return Kind::recompute;
    case Op::update:
      return Kind::update;
    case Op::push_forward:
      return Kind::push_forward;
    case Op::pop_forward:
      return Kind::pop_forward;
    case Op::push_backward:
      return Kind::push_backward;
    case Op::pop_backward:
      return Kind::pop_backward;
    default:
      return std::nullopt;
  }
}

}  // namespace

bool ProgramRunner::gather(int p, const Item& item) {
  const Walk& walk = walks_[p];
  const Slot before = walk.lane_end[item.engine == Engine::recompute ? 1 : 0];
  if (before != none) add_edge(before, EdgeKind::order);
  if (walk.pending_barrier != none && item.engine == Engine::compute) {
    const Slot barrier = barrier_slot(walk.pending_barrier);
    if (barrier == none) return wait(p, barrier_waiters_);
    add_edge(barrier, EdgeKind::barrier);
  }
  if (walk.phase && !gather_phase(p, *walk.phase)) return false;
  if (item.engine == Engine::recompute) {
    gather_recompute(walk, item);
  } else if (item.op == Op::push_forward || item.op == Op::push_backward) {
    if (!gather_push(p, item)) return false;
  } else if (!gather_data(p, item)) {
    return false;
  }
  return shape_.copies == 1 || gather_copies(p, item);
}

/// An earlier task of the same rank is behind us anyway; a later one is a deadlock to be named.
bool ProgramRunner::gather_phase(int p, const Item& phase) {
  const std::optional<Kind> kind = kind_of(phase.op);
  const bool exists = phase.stage.value >= 0 && phase.stage.value < shape_.stages &&
                      phase.micro_batch.value >= 0 &&
                      phase.micro_batch.value < shape_.all_micro_batches();
  if (!kind || !exists) return true;
  std::int32_t& entry = in_flight_.at(phase.stage, phase.micro_batch)[*kind];
  const bool own = schedule_.rank_of(phase.stage) == walks_[p].rank;
  const bool behind = own && entry >= 0 && (!regardless_ || entry <= walks_[p].newest);
  return behind || need(p, entry, EdgeKind::phase);
}

/// R waits for what the F beside it waits for, and starts with it. Without an F (drain) it waits
/// for the newest weights, and for the stored input, which came long before.
void ProgramRunner::gather_recompute(const Walk& walk, const Item& item) {
  if (!item.beside_previous) {
    const Slot before = walk.lane_end[0];
    if (before != none) {
      add_edge(before, tasks[before].op == Op::update ? EdgeKind::version : EdgeKind::local);
    }
    return;
  }
  for (const Edge edge : walk.newest_row) {
    const bool order = edge.kind() == EdgeKind::order;
    const bool updated = order && tasks[edge.from().value].op == Op::update;
    add_edge(edge.from().value, updated ? EdgeKind::version
                                : order ? EdgeKind::local
                                        : edge.kind());
  }
  add_edge(walk.newest, EdgeKind::beside);
}

/// A push waits for a free place, and for the R beside the F whose output it hands on: a device is
/// done with both at once.
bool ProgramRunner::gather_push(int p, const Item& item) {
  const Slot partner = walks_[p].newest;
  if (partner != none && tasks[partner].op == Op::recompute &&
      tasks[partner].lane != lane_of(p, item)) {
    add_edge(partner, EdgeKind::local);
  }
  if (item.capacity == unbounded) return true;
  const bool forward = item.op == Op::push_forward;
  const Stage to = forward ? item.stage + 1 : item.stage - 1;
  const MicroBatch popped = item.micro_batch - item.capacity;
  if (!has_pop(forward ? Op::pop_forward : Op::pop_backward, to, popped)) return true;
  return need(p, in_flight_.at(to, popped)[forward ? Kind::pop_forward : Kind::pop_backward],
              EdgeKind::queue);
}

/// A run that ends without drain leaves out the last pops of a stage.
bool ProgramRunner::has_pop(Op op, Stage k, MicroBatch i) const {
  if (k.value < 0 || k.value >= shape_.stages || i.value < 0) return false;
  if (shape_.copies > 1 && shape_.copy_of(i) != shape_.copy_of(k)) return false;
  return shape_.drain || number_in_copy(i) < facts_.count(op, k);
}

/// F(k,i) <- F(k-1,i); B(k,i) <- F or R(k,i) and B(k+1,i); W(k,i) <- I(k,i). What runs before it on
/// its own lane needs no edge.
bool ProgramRunner::gather_data(int p, const Item& item) {
  const Stage k = item.stage;
  const MicroBatch i = item.micro_batch;
  const LocalGradients& local = schedule_.learning().local_gradients;
  const StageState& state = stages_[k.value];
  const auto source = [&] {
    const Sources& sources = schedule_.learning().sources;
    return sources.empty() ? i : sources[k.value][i.value];
  };
  switch (item.op) {
    case Op::forward:
      if (state.is_first || (pops_ && in_flight_.at(k, i)[Kind::pop_forward] >= 0)) return true;
      return need_from(p, item, Kind::forward, k - 1, source(), EdgeKind::activation);
    case Op::pop_forward:
      return need_from(p, item, Kind::push_forward, k - 1, source(), EdgeKind::activation);
    case Op::pop_backward:
      if (local.source == GradientSource::feedback) {
        return need_from(p, item, Kind::forward, shape_.last_of(k), i, EdgeKind::gradient);
      }
      return need_from(p, item, Kind::push_backward, k + 1, i, EdgeKind::gradient);
    case Op::backward:
    case Op::backward_input:
      return gather_gradient(p, item);
    default:
      return true;
  }
}

bool ProgramRunner::gather_gradient(int p, const Item& item) {
  const Stage k = item.stage;
  const MicroBatch i = item.micro_batch;
  const LocalGradients& local = schedule_.learning().local_gradients;
  const bool feedback = local.source == GradientSource::feedback;
  const bool popped = pops_ && in_flight_.at(k, i)[Kind::pop_backward] >= 0;
  if (!stages_[k.value].is_last && local.come_from_other_stage() && !popped &&
      !need_from(p, item, feedback ? Kind::forward : Kind::input_gradient,
                 feedback ? shape_.last_of(k) : k + 1, i, EdgeKind::gradient)) {
    return false;
  }
  if (!recomputes_) return true;
  const Slot tape = in_flight_.at(k, i)[Kind::recompute];
  if (tape >= 0 && tasks[tape].lane != lane_of(p, item)) add_edge(tape, EdgeKind::local);
  return true;
}

/// The same for what crosses lanes only. What its own rank has not run before it breaks a rule.
bool ProgramRunner::need_from(int p, const Item& item, Kind kind, Stage k, MicroBatch i,
                              EdgeKind edge) {
  std::int32_t& entry = in_flight_.at(k, i)[kind];
  if (entry < 0 && !regardless_ && schedule_.rank_of(k) == walks_[p].rank) {
    odd_ = true;
    return false;
  }
  if (entry >= 0 && tasks[entry].lane == lane_of(p, item)) return true;
  return need(p, entry, edge);
}

/// Programs that wait for an entry are a chain whose first stands in it as -2 - program.
bool ProgramRunner::wait_for(int p, std::int32_t& entry) {
  if (regardless_) return true;  // nobody will ever run it
  walks_[p].next_waiter = entry == none ? none : -2 - entry;
  entry = -2 - p;
  return false;
}

bool ProgramRunner::wait(int p, int& waiters) {
  walks_[p].next_waiter = std::exchange(waiters, p);
  return false;
}

ProgramRunner::Slot ProgramRunner::barrier_slot(int number) const {
  if (regardless_) return first_barrier_ + number;
  return number < barriers_done_ ? newest_barrier_ : none;
}

}  // namespace unlatch
