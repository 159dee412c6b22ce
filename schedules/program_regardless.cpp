// Who waits for whom when nobody is held up: what a deadlock is found in.
#include "schedules/program_runner.h"

namespace unlatch {

/// All tasks get their slots first, rank by rank, then barriers, then the AR of each model stage.
void ProgramRunner::run_regardless() {
  regardless_ = true;
  start();
  for (Walk& walk : walks_) {
    if (walk.cursor) give_slots(walk);
  }
  first_barrier_ = static_cast<Slot>(tasks.size());
  Task barrier;
  barrier.op = Op::barrier;
  barrier.lane = facts_.find_lane({Rank{0}, Engine::control, {}});
  for (barrier.step = 0; barrier.step < facts_.barriers; ++barrier.step) tasks.push_back(barrier);
  for (AllReduces& all : all_reduces_) give_slots(all);
  for (int p = 0; p < barrier_program(); ++p) {
    Walk& walk = walks_[p];
    walk.cursor.emplace(schedule_.programs()[walk.rank.value].runs());
    while (step_to_task(walk)) {
      const auto slot = static_cast<Slot>(first_edge.size()) - 1;
      read_version(walk.cursor->item(), tasks[slot]);
      row_ = edges.size();
      gather(p, walk.cursor->item());
      record(p, walk.cursor->item(), slot);
      first_edge.push_back(static_cast<std::uint32_t>(edges.size()));
    }
  }
  add_joint_rows();
}

void ProgramRunner::give_slots(Walk& walk) {
  while (walk.cursor->next()) {
    const Item& item = walk.cursor->item();
    if (item.kind != Item::Kind::task) continue;
    const Slot slot = begin_task(walk, item);
    put(item, slot);
    if (served_ && item.op == Op::update) updates_[item.stage.value].push_back(slot);
  }
}

void ProgramRunner::give_slots(AllReduces& all) {
  const Stage k{static_cast<int>(&all - all_reduces_.data())};
  const bool average = agreement().kind == Agreement::Kind::average;
  const std::int64_t period = average ? agreement().period : 1;
  all.first = static_cast<Slot>(tasks.size());
  Task task;
  task.op = Op::all_reduce;
  task.stage = k;
  task.lane = facts_.find_lane({schedule_.rank_of(k), Engine::all_reduce, k});
  const std::int64_t updates = facts_.count(Op::update, k);
  for (std::int64_t n = 0; n < (updates + period - 1) / period; ++n) tasks.push_back(task);
}

void ProgramRunner::add_joint_rows() {
  walks_[barrier_program()].progress = facts_.barriers;
  for (std::size_t j = 0; j < meetings_.size(); ++j) {
    if (j > 0) add_edge(first_barrier_ + static_cast<Slot>(j) - 1, EdgeKind::order);
    for (const auto& [rank, before] : meetings_[j].before) add_edge(before, EdgeKind::barrier);
    first_edge.push_back(static_cast<std::uint32_t>(edges.size()));
  }
  for (const AllReduces& all : all_reduces_) {
    walks_[barrier_program() + 1 + (&all - all_reduces_.data())].progress = std::ssize(all.waiting);
    for (std::size_t n = 0; n < all.waiting.size(); ++n) {
      Task& task = tasks[all.first + n];
      task.micro_batch = all.waiting[n].task.micro_batch;
      task.version = all.waiting[n].task.version;
      if (n > 0) add_edge(all.first + static_cast<Slot>(n) - 1, EdgeKind::order);
      for (const auto& [rank, input] : all.waiting[n].inputs) add_edge(input, EdgeKind::all_reduce);
      first_edge.push_back(static_cast<std::uint32_t>(edges.size()));
    }
  }
}

}  // namespace unlatch
