#include "schedules/schedule.h"

#include <utility>

#include "schedules/builder.h"
#include "schedules/error.h"

namespace unlatch {

Program& Program::add(Op op, Stage k, MicroBatch i) {
  Item& item = runs_.append();
  item.op = op;
  item.stage = k;
  item.micro_batch = i;
  item.step = step_;
  return *this;
}

Program& Program::forward(Stage k, MicroBatch i, int version) {
  forward(k, i);
  newest_item().version = version;
  return *this;
}

Program& Program::forward_beside_recompute(Stage k, MicroBatch i, MicroBatch replayed) {
  forward(k, i);
  recompute_alone(k, replayed);
  newest_item().beside_previous = true;
  return *this;
}

Program& Program::recompute_alone(Stage k, MicroBatch i) {
  add(Op::recompute, k, i);
  newest_item().engine = Engine::recompute;
  return *this;
}

Program& Program::backward(Stage k, MicroBatch i, Weights weights) {
  add(Op::backward, k, i);
  newest_item().weights = weights;
  return *this;
}

Program& Program::backward_ending_block(Stage k, MicroBatch i) {
  add(Op::backward, k, i);
  newest_item().ends_block = true;
  return *this;
}

Program& Program::backward_input(Stage k, MicroBatch i, Weights weights) {
  add(Op::backward_input, k, i);
  newest_item().weights = weights;
  return *this;
}

Program& Program::push_forward(Stage k, MicroBatch i, int capacity) {
  add(Op::push_forward, k, i);
  newest_item().capacity = capacity;
  return *this;
}

Program& Program::push_backward(Stage k, MicroBatch i, int capacity) {
  add(Op::push_backward, k, i);
  newest_item().capacity = capacity;
  return *this;
}

Program& Program::after(Op op, Stage k, MicroBatch i) {
  add(op, k, i);
  newest_item().kind = Item::Kind::after;
  return *this;
}

Program& Program::barrier() {
  // It takes the numbers of the item before it, so that steps with barriers repeat like others.
  Item item;
  item.kind = Item::Kind::barrier;
  item.step = step_;
  if (const Item* const before = last()) {
    item.micro_batch = before->micro_batch;
    item.column = before->column;
  }
  runs_.append(item);
  return *this;
}

Program& Program::next_step() {
  ++step_;
  return *this;
}

Program& Program::at_column(int column) {
  newest_item().column = column;
  return *this;
}

Schedule::Schedule(std::string specification, Shape shape)
    : specification_(std::move(specification)), shape_(shape) {
  require(shape.stages >= 1, "{}: at least one stage is needed, not {}", specification_,
          shape.stages);
  require(shape.chunks >= 1 && shape.stages % shape.chunks == 0,
          "{}: {} stages cannot be spread over ranks of {} chunks each; stages = ranks x chunks",
          specification_, shape.stages, shape.chunks);
  require(shape.micro_batches >= 1, "{}: at least one micro-batch is needed, not {}",
          specification_, shape.micro_batches);
  require(shape.batches >= 1, "{}: at least one batch is needed, not {}", specification_,
          shape.batches);
  learning_.loss_scale = 1.0 / shape.micro_batches;
  for (const Stage k : up_to<Stage>(shape.stages)) {
    rank_of_stage_.push_back(Rank{k.value % shape.ranks()});
  }
  programs_.resize(shape.ranks());
}

TaskGraph Schedule::build() const { return Builder(*this).build(); }

std::vector<Violation> Schedule::violations() const { return Builder(*this).violations(); }

}  // namespace unlatch
