#include "schedules/joint_updates.h"

#include <utility>

#include "schedules/error.h"

namespace unlatch {
namespace {

int batch_of(const Shape& shape, const ProgramItem& item) {
  return item.micro_batch.value / shape.micro_batches;
}

/// One rank's items, batch by batch: a barrier in front of the updates, which come last.
class JointProgram {
 public:
  JointProgram(const Schedule& from, Rank rank) : from_(from), rank_(rank) {}

  void write_to(Program& program) {
    for (const ProgramItem& item : from_.programs()[rank_.value].items()) {
      if (item.kind == ProgramItem::Kind::task) take(program, item);
      if (item.kind != ProgramItem::Kind::task || item.op != Op::update) program.append(item);
    }
    if (begun_) end_batch(program);
  }

 private:
  void take(Program& program, const ProgramItem& item) {
    const int batch = batch_of(from_.shape(), item);
    if (!begun_) begin(batch);
    if (batch > batch_ && item.op != Op::update) {
      end_batch(program);
      begin(batch);
    }
    require(
        batch == batch_,
        "{}: rank {} works on batch {} in the middle of batch {}, so its stages cannot wait for "
        "the gradients of all others before they update",
        from_.specification(), rank_.value, batch, batch_);
    if (item.op == Op::update) updates_.push_back(item);
  }

  void begin(int batch) {
    begun_ = true;
    batch_ = batch;
  }

  void end_batch(Program& program) {
    program.barrier();
    for (const ProgramItem& update : std::exchange(updates_, {})) program.append(update);
  }

  const Schedule& from_;
  Rank rank_;
  bool begun_ = false;
  int batch_ = 0;
  std::vector<ProgramItem> updates_;
};

}  // namespace

Schedule with_joint_updates(const Schedule& schedule) {
  const bool sums =
      schedule.shape().copies == 1 || schedule.learning().agreement.kind == Agreement::Kind::sum;
  require(sums,
          "{}: its replicas do not sum up the gradients of a batch before they update, so there is "
          "no gradient of the whole model to wait for",
          schedule.specification());
  Schedule joint(schedule.specification(), schedule.shape());
  joint.learning() = schedule.learning();
  joint.learning().joint_updates = true;
  for (const Stage k : up_to<Stage>(schedule.shape().stages)) joint.place(k, schedule.rank_of(k));
  for (const Rank r : up_to<Rank>(schedule.shape().ranks())) {
    JointProgram(schedule, r).write_to(joint.on(r));
  }
  return joint;
}

}  // namespace unlatch
