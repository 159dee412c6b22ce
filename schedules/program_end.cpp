// Whether programs that have all run to their end have done all that a run must do. Every task has
// run once by then, so that numbers of tasks say which of them there are.
#include "schedules/program_runner.h"

namespace unlatch {

bool ProgramRunner::ended_well() {
  for (const Walk& walk : walks_) {
    if (walk.at_task) return false;
  }
  for (const Stage k : up_to<Stage>(shape_.stages)) {
    if (!is_whole(k) || !has_partners(k)) return false;
    if (facts_.count(Op::update, k) != facts_.count(Op::update, shape_.model_stage(k)))
      return false;
  }
  if (!facts_.barriers_agree || !applies_gradients()) return false;
  if (recomputes_ && !shape_.drain) flag_replayed();
  return true;
}

/// All forwards and, but for the last ones of a run without drain, all gradients.
bool ProgramRunner::is_whole(Stage k) const {
  const std::int64_t all = shape_.all_micro_batches() / shape_.copies;
  const std::int64_t gradients =
      facts_.count(Op::backward, k) + facts_.count(Op::backward_weight, k);
  return facts_.count(Op::forward, k) == all &&
         facts_.count(Op::backward_input, k) == facts_.count(Op::backward_weight, k) &&
         gradients == (shape_.drain ? all : stages_[k.value].last_gradient + 1);
}

/// Pops have waited for their pushes; a push may stay in flight where a run ends without drain.
bool ProgramRunner::has_partners(Stage k) const {
  const auto popped = [this](Op op, Stage to) {
    return to.value >= 0 && to.value < shape_.stages ? facts_.count(op, to) : 0;
  };
  return !shape_.drain || (facts_.count(Op::push_forward, k) == popped(Op::pop_forward, k + 1) &&
                           facts_.count(Op::push_backward, k) == popped(Op::pop_backward, k - 1));
}

/// A gradient that no update applies is lost work, unless a rank has no updates at all.
bool ProgramRunner::applies_gradients() const {
  if (schedule_.learning().leaves_gradients) return true;
  std::vector<bool> updates(shape_.ranks(), false);
  for (const Stage k : up_to<Stage>(shape_.stages)) {
    if (stages_[k.value].updates > 0) updates[schedule_.rank_of(k).value] = true;
  }
  for (const Stage k : up_to<Stage>(shape_.stages)) {
    if (stages_[k.value].has_gradient && updates[schedule_.rank_of(k).value]) return false;
  }
  return true;
}

}  // namespace unlatch
