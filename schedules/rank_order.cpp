#include "schedules/rank_order.h"

#include <algorithm>
#include <set>
#include <utility>

namespace unlatch {

int RankOrder::count(const std::map<Stage, int>& counts, Stage k) {
  const auto found = counts.find(k);
  return found == counts.end() ? 0 : found->second;
}

RankOrder& RankOrder::add(Op op, Stage k, int i) {
  if (i < micro_batches_) entries_.push_back({op, k, i});
  return *this;
}

RankOrder& RankOrder::forward(Stage k) { return add(Op::forward, k, forwards_[k]++); }

RankOrder& RankOrder::add_gradient(Op op, Stage k) { return add(op, k, gradients_[k]++); }

RankOrder& RankOrder::forward_and_backward(Stage forwarded, Stage backwarded) {
  forward(forwarded).backward(backwarded);
  entries_.back().ends_block = true;
  return *this;
}

RankOrder& RankOrder::backward_input(Stage k) {
  const int i = count(gradients_, k);
  if (i < micro_batches_) waiting_.push_back({Op::backward_weight, k, i});
  return add_gradient(Op::backward_input, k);
}

RankOrder& RankOrder::take_weight(std::size_t place) {
  entries_.push_back(waiting_[place]);
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(place));
  return *this;
}

RankOrder& RankOrder::backward_weight() { return waiting_.empty() ? *this : take_weight(0); }

RankOrder& RankOrder::backward_weight(Stage k) {
  for (std::size_t place = 0; place < waiting_.size(); ++place) {
    if (waiting_[place].stage == k) return take_weight(place);
  }
  return *this;
}

RankOrder& RankOrder::all_backward_weights() {
  entries_.insert(entries_.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  return *this;
}

Rank snake(Stage k, int ranks) {
  const int place = k.value % (2 * ranks);
  return {place < ranks ? place : 2 * ranks - 1 - place};
}

void place_in_snake(Schedule& schedule) {
  const Shape& shape = schedule.shape();
  for (const Stage k : up_to<Stage>(shape.stages)) schedule.place(k, snake(k, shape.ranks()));
}

namespace {

/// Writes the orders of all ranks into a schedule, batch by batch.
class OrderWriter {
 public:
  OrderWriter(Schedule& schedule, const std::vector<RankOrder>& orders)
      : schedule_(schedule), shape_(schedule.shape()), orders_(orders) {
    for (const RankOrder& order : orders) {
      for (std::size_t j = 1; j < order.entries().size(); ++j) {
        if (order.entries()[j].ends_block) note_hand_over(order.entries()[j - 1]);
      }
    }
  }

  void write_batch(int batch) {
    batch_ = batch;
    for (const Rank r : up_to<Rank>(shape_.ranks())) {
      const std::vector<RankOrder::Entry>& entries = orders_[r.value].entries();
      for (std::size_t j = 0; j < entries.size(); ++j) {
        write(schedule_.on(r), entries[j]);
        if (entries[j].ends_block) hand_over(schedule_.on(r), entries[j - 1]);
      }
    }
    // By stage of the model: ranks that reduce the same stages do so in the same order.
    for (const Stage model_stage : up_to<Stage>(shape_.stages_a_copy())) {
      for (const Stage k : shape_.in_all_copies(model_stage)) {
        schedule_.of(k).update(k, micro_batch(k, share() - 1));
      }
    }
    for (const Rank r : up_to<Rank>(shape_.ranks())) schedule_.on(r).next_step();
  }

 private:
  int share() const { return shape_.micro_batches / shape_.copies; }
  /// The micro-batch of that number in the batch, of the stage's copy of the model.
  MicroBatch micro_batch(Stage k, int i) const {
    return {batch_ * shape_.micro_batches + shape_.copy_of(k) * share() + i};
  }

  /// The output of an F in a block leaves at the end of the block, if another rank waits for it.
  void note_hand_over(const RankOrder::Entry& forward) {
    const Stage k = forward.stage;
    if (shape_.is_last(k) || schedule_.rank_of(k) == schedule_.rank_of(k + 1)) return;
    handed_over_.emplace(k, forward.micro_batch);
  }
  bool is_handed_over(Stage k, int i) const { return handed_over_.contains({k, i}); }
  void hand_over(Program& program, const RankOrder::Entry& forward) const {
    const Stage k = forward.stage;
    if (is_handed_over(k, forward.micro_batch)) {
      program.push_forward(k, micro_batch(k, forward.micro_batch));
    }
  }

  void write(Program& program, const RankOrder::Entry& entry) const {
    const Stage k = entry.stage;
    const MicroBatch i = micro_batch(k, entry.micro_batch);
    switch (entry.op) {
      case Op::forward:
        if (is_handed_over(k - 1, entry.micro_batch)) program.pop_forward(k, i);
        program.forward(k, i);
        break;
      case Op::backward:
        entry.ends_block ? program.backward_ending_block(k, i) : program.backward(k, i);
        break;
      case Op::backward_input:
        program.backward_input(k, i);
        break;
      default:
        program.backward_weight(k, i);
    }
  }

  Schedule& schedule_;
  const Shape& shape_;
  const std::vector<RankOrder>& orders_;
  std::set<std::pair<Stage, int>> handed_over_;
  int batch_ = 0;
};

}  // namespace

void repeat_every_batch(Schedule& schedule, const std::vector<RankOrder>& orders) {
  OrderWriter writer(schedule, orders);
  for (int batch = 0; batch < schedule.shape().batches; ++batch) writer.write_batch(batch);
}

std::vector<int> most_tapes(const Shape& shape, const std::vector<RankOrder>& orders) {
  std::vector<int> now(shape.stages, 0), most(shape.stages, 0);
  for (const RankOrder& order : orders) {
    for (const RankOrder::Entry& entry : order.entries()) {
      const int k = entry.stage.value;
      if (entry.op == Op::forward) most[k] = std::max(most[k], ++now[k]);
      if (entry.op == Op::backward || entry.op == Op::backward_weight) --now[k];
    }
  }
  return most;
}

Promise synchronous_promise(const Shape& shape, std::vector<int> tapes, std::optional<int> idle) {
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  return {zero, zero, one, std::move(tapes), zero, idle};
}

}  // namespace unlatch
