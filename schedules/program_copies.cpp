// What joins the copies of a model: sums, averages and servers (see Agreement).
#include <algorithm>
#include <utility>

#include "schedules/program_runner.h"

namespace unlatch {

using AgreementKind = Agreement::Kind;

bool ProgramRunner::gather_copies(int p, const Item& item) {
  for (const Owed& owed : stages_[item.stage.value].owed) {
    const bool there = owed.all_reduce ? need_all_reduce(p, owed.stage, owed.number)
                                       : need_update(p, owed.stage, owed.number);
    if (!there) return false;
  }
  if (agreement().kind == AgreementKind::delayed) return gather_delayed(p, item);
  if (item.op != Op::update) return true;
  if (agreement().kind == AgreementKind::sum) {
    return need_sums(p, item);
  }
  if (agreement().kind == AgreementKind::server) return gather_served(p, item);
  return true;
}

/// Its own, or those of all stages.
bool ProgramRunner::need_sums(int p, const Item& update) {
  const int number = stages_[update.stage.value].updates;
  if (!schedule_.learning().joint_updates) return need_all_reduce(p, update.stage, number);
  for (const Stage k : up_to<Stage>(shape_.stages_a_copy())) {
    if (!need_all_reduce(p, k, number)) return false;
  }
  return true;
}

/// SSD-SGD: AR joins the gradients of a batch while the copies go on. A copy's first gradient of
/// batch t takes the place of that of batch t-2, which AR must have read; and its update takes the
/// server's weights in the warm-up, or those that it has pulled since its last update.
bool ProgramRunner::gather_delayed(int p, const Item& item) {
  const StageState& state = stages_[item.stage.value];
  const int warm_up = agreement().warm_up;
  const int batch = item.micro_batch.value / shape_.micro_batches;
  const bool gives_gradient = item.op == Op::backward || item.op == Op::backward_weight;
  if (gives_gradient && state.newest_gradient == none && batch - 2 >= warm_up &&
      !need_all_reduce(p, item.stage, batch - 2)) {
    return false;
  }
  if (item.op != Op::update) return true;
  if (state.updates < warm_up && !need_all_reduce(p, item.stage, state.updates)) return false;
  const int last = state.updates - 1;
  const bool pulled = last >= warm_up && agreement().pulls(last);
  return !pulled || need_all_reduce(p, item.stage, last);
}

/// Updates of one server follow each other.
bool ProgramRunner::gather_served(int p, const Item& item) {
  if (agreement().any_order) return true;
  const auto before = served_before(item.stage, stages_[item.stage.value].updates);
  return !before || need_update(p, before->first, before->second);
}

bool ProgramRunner::need_all_reduce(int p, Stage k, int number) {
  AllReduces& all = all_reduces_[shape_.model_stage(k).value];
  if (!regardless_ && number >= all.done) return wait(p, all.waiters);
  const Slot slot = regardless_ ? all.first + number
                                : all.newest[static_cast<std::size_t>(number) % all.newest.size()];
  add_edge(slot, EdgeKind::all_reduce);
  return true;
}

bool ProgramRunner::need_update(int p, Stage k, int number) {
  const std::vector<Slot>& done = updates_[k.value];
  if (number >= std::ssize(done)) return regardless_ || wait(p, stages_[k.value].waiters);
  add_edge(done[number], EdgeKind::version);
  return true;
}

/// Gives an input to an AR, which `update` says more about.
void ProgramRunner::join(int p, const Item& update, int number, Slot input) {
  const Stage model_stage = shape_.model_stage(update.stage);
  AllReduces& all = all_reduces_[model_stage.value];
  const auto ahead = static_cast<std::size_t>(number - all.done);
  if (all.waiting.size() <= ahead) all.waiting.resize(ahead + 1);
  AllReduces::Join& joined = all.waiting[ahead];
  if (update.stage == model_stage) {
    joined.task.stage = update.stage;
    joined.task.micro_batch = update.micro_batch;
    joined.task.step = update.step;
    joined.task.version = stages_[update.stage.value].updates;
  }
  joined.inputs.emplace_back(walks_[p].rank, input);
  if (std::ssize(joined.inputs) == shape_.copies && ahead == 0) {
    ready_.push_back(barrier_program() + 1 + model_stage.value);
  }
}

/// The newest gradient of each copy goes into AR, whatever the rank does before the update: the
/// scout knows which one that is.
void ProgramRunner::give_gradient(int p, Stage k, Slot slot) {
  StageState& state = stages_[k.value];
  ++state.gradients;
  ItemRuns::Cursor& scout = *walks_[p].scout;
  while (true) {
    while (!state.last_gradients.empty() && state.last_gradients.front().first < state.gradients) {
      state.last_gradients.pop_front();
    }
    if (!state.last_gradients.empty() && state.last_gradients.front().first == state.gradients) {
      return join(p, state.last_gradients.front().second, state.updates, slot);
    }
    if (state.scouted > state.gradients || !scout.next()) return;
    const Item& ahead = scout.item();
    if (ahead.kind != Item::Kind::task) continue;
    StageState& other = stages_[ahead.stage.value];
    if (ahead.op == Op::backward || ahead.op == Op::backward_weight) ++other.scouted;
    if (ahead.op == Op::update) other.last_gradients.emplace_back(other.scouted, ahead);
  }
}

void ProgramRunner::record_copies(int p, Slot slot) {
  const Task& task = tasks[slot];
  StageState& state = stages_[task.stage.value];
  state.owed.clear();
  if (task.op == Op::backward || task.op == Op::backward_weight) {
    state.newest_gradient = slot;
    if (walks_[p].scout) give_gradient(p, task.stage, slot);
  }
  if (task.op != Op::update) return;
  state.newest_gradient = none;
  if (agreement().kind == AgreementKind::average) give_weights(p, slot);
  if (agreement().kind == AgreementKind::server) serve(task, slot);
}

/// Weights go into AR after an update and come out before they are used again. The last update is
/// joined too, so that a run ends with one model.
void ProgramRunner::give_weights(int p, Slot slot) {
  const Item& item = walks_[p].cursor->item();
  StageState& state = stages_[item.stage.value];
  const int period = agreement().period;
  const int done = state.updates + 1;
  if (done % period != 0 && done != facts_.count(Op::update, item.stage)) return;
  const int number = state.updates / period;
  join(p, item, number, slot);
  state.owed.push_back({true, item.stage, number});
}

/// The next batch waits for the updates of other copies that the bound says.
void ProgramRunner::serve(const Task& task, Slot slot) {
  StageState& state = stages_[task.stage.value];
  if (!regardless_) updates_[task.stage.value].push_back(slot);
  wake(std::exchange(state.waiters, none));
  if (state.updates < agreement().bound) return;
  for (const Stage other : shape_.in_all_copies(task.stage)) {
    if (other != task.stage) {
      state.owed.push_back({false, other, state.updates - agreement().bound});
    }
  }
}

void ProgramRunner::run_all_reduces(Stage model_stage) {
  AllReduces& all = all_reduces_[model_stage.value];
  while (!all.waiting.empty() && std::ssize(all.waiting.front().inputs) == shape_.copies) {
    AllReduces::Join joined = std::move(all.waiting.front());
    all.waiting.pop_front();
    const auto place_of = [&](int number) -> Slot& {
      return all.newest[static_cast<std::size_t>(number) % all.newest.size()];
    };
    const Slot slot = new_slot();
    row_ = edges.size();
    if (all.done > 0) add_edge(place_of(all.done - 1), EdgeKind::order);
    std::ranges::stable_sort(joined.inputs, {}, &std::pair<Rank, Slot>::first);
    for (const auto& [rank, input] : joined.inputs) add_edge(input, EdgeKind::all_reduce);
    joined.task.op = Op::all_reduce;
    joined.task.flags = 0;
    joined.task.lane =
        facts_.find_lane({schedule_.rank_of(model_stage), Engine::all_reduce, model_stage});
    tasks[slot] = joined.task;
    place_of(all.done++) = slot;
    end_task(slot);
    ++walks_[barrier_program() + 1 + model_stage.value].progress;
    wake(std::exchange(all.waiters, none));
  }
}

/// The update that the server applies before that of a stage: in turn, or in the order given.
std::optional<std::pair<Stage, int>> ProgramRunner::served_before(Stage k, int number) const {
  if (!served_before_.empty()) return served_before_[k.value][number];
  const int copy = shape_.copy_of(k);
  if (copy > 0) return std::pair(k - shape_.stages_a_copy(), number);
  if (number == 0) return std::nullopt;
  return std::pair(k + (shape_.copies - 1) * shape_.stages_a_copy(), number - 1);
}

void ProgramRunner::order_served() {
  if (agreement().order.empty()) return;
  served_before_.resize(shape_.stages);
  for (const Stage model_stage : up_to<Stage>(shape_.stages_a_copy())) {
    std::optional<std::pair<Stage, int>> before;
    for (const int copy : agreement().order[model_stage.value]) {
      const Stage k = model_stage + copy * shape_.stages_a_copy();
      std::vector<std::optional<std::pair<Stage, int>>>& mine = served_before_[k.value];
      mine.push_back(before);
      before = std::pair(k, static_cast<int>(mine.size()) - 1);
    }
  }
  for (const Stage k : up_to<Stage>(shape_.stages)) {
    odd_ = odd_ || std::ssize(served_before_[k.value]) != facts_.count(Op::update, k);
  }
}

}  // namespace unlatch
