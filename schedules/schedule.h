// Schedule: what a paper decides, rank by rank; build() turns it into a graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "schedules/graph.h"
#include "schedules/item_runs.h"
#include "schedules/violation.h"

namespace unlatch {

/// The ordered work of one rank. Calls chain; the order of the calls is the order of execution.
class Program {
 public:
  Program& forward(Stage k, MicroBatch i) { return add(Op::forward, k, i); }
  /// F with the weights after that many updates; an older version is kept for it.
  Program& forward(Stage k, MicroBatch i, int version);
  /// F(k,i) on the compute lane and R(k,replayed) on the recompute lane, started together.
  Program& forward_beside_recompute(Stage k, MicroBatch i, MicroBatch replayed);
  /// R on the recompute lane without an F beside it (drain).
  Program& recompute_alone(Stage k, MicroBatch i);
  /// R on the compute lane.
  Program& recompute(Stage k, MicroBatch i) { return add(Op::recompute, k, i); }
  Program& backward(Stage k, MicroBatch i, Weights weights = Weights::current);
  Program& backward_input(Stage k, MicroBatch i, Weights weights = Weights::current);
  /// B that makes one block with the F before it, which devices may overlap (DualPipe's F&B): both
  /// are done at its end. What F gives is handed on behind it, by push_forward.
  Program& backward_ending_block(Stage k, MicroBatch i);
  Program& backward_weight(Stage k, MicroBatch i) { return add(Op::backward_weight, k, i); }
  /// Applies all gradients of the stage since its last update; `last` is the newest of them.
  Program& update(Stage k, MicroBatch last) { return add(Op::update, k, last); }

  /// Hands h_{k+1}(i) on; waits until i - capacity has been popped. A pop frees its place at once.
  Program& push_forward(Stage k, MicroBatch i, int capacity = unbounded);
  Program& pop_forward(Stage k, MicroBatch i) { return add(Op::pop_forward, k, i); }
  Program& push_backward(Stage k, MicroBatch i, int capacity = unbounded);
  Program& pop_backward(Stage k, MicroBatch i) { return add(Op::pop_backward, k, i); }

  /// The next task also waits for that task of any rank (end of the forward phase of DDG, FR).
  Program& after(Op op, Stage k, MicroBatch i);
  /// All ranks meet here with all their work and messages done. Call it as often on every rank.
  Program& barrier();
  /// The tasks that follow belong to the next local step (one straggler draw each).
  Program& next_step();

  using Item = ProgramItem;
  /// The items as they are kept: what repeats once.
  const ItemRuns& runs() const& { return runs_; }
  /// A copy of all items, for files and tests; long programs are read from runs().
  std::vector<Item> items() const { return runs_.expanded(); }
  /// The item added last; null in an empty program.
  const Item* last() const { return runs_.last(); }
  /// The task just added stands in that column of a file: what messages about it say.
  Program& at_column(int column);
  /// An item as it is, its local step included.
  void append(const Item& item) { runs_.append(item); }

 private:
  Program& add(Op op, Stage k, MicroBatch i);
  Item& newest_item() { return *runs_.last(); }
  ItemRuns runs_;
  int step_ = 0;
};

/// Programs for all ranks. The builder adds what mathematics needs; see build().
class Schedule {
 public:
  /// Placement is round robin: stage k on rank k mod ranks.
  Schedule(std::string specification, Shape shape);

  const Shape& shape() const { return shape_; }
  Rank rank_of(Stage k) const { return rank_of_stage_[k.value]; }
  Program& on(Rank r) { return programs_[r.value]; }
  /// The program of the rank that holds stage k.
  Program& of(Stage k) { return on(rank_of(k)); }
  void place(Stage k, Rank r) { rank_of_stage_[k.value] = r; }
  /// What the method computes beyond its tasks. With local gradients that come from a synthesiser,
  /// pop_backward(k, i) is where stage k learns from g_{k+1}(i).
  Learning& learning() & { return learning_; }
  const Learning& learning() const& { return learning_; }

  /// Adds the data edges F(k,i) <- F(k-1,i), B(k,i) <- F or R(k,i) and B(k+1,i), W(k,i) <- I(k,i),
  /// the order of each lane, barriers, phases and queue places; derives versions and flags.
  /// Throws Error with the first violation: missing, duplicate or misplaced work, or a deadlock
  /// with its shortest cycle named.
  TaskGraph build() const;
  /// Every broken rule, without throwing; empty when build() succeeds.
  std::vector<Violation> violations() const;

  const std::string& specification() const { return specification_; }
  void rename(std::string specification) { specification_ = std::move(specification); }
  const std::vector<Program>& programs() const& { return programs_; }

 private:
  std::string specification_;
  Shape shape_;
  std::vector<Rank> rank_of_stage_;
  std::vector<Program> programs_;
  Learning learning_;
};

}  // namespace unlatch
