// What a StageRunner's tasks leave to later tasks, for saving and restoring.
#include "exec/stage_runner.h"

namespace unlatch::exec {

void StageRunner::visit_state(StateVisitor& visitor) {
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    const StateVisitor::Scope scope(visitor, fmt::format("stage {}", k));
    visit_stage(visitor, stages_[k]);
  }
  for (std::size_t k = 0; k < drifts_.size(); ++k) {
    visitor.parameters(fmt::format("drift of stage {}", k), drifts_[k]);
  }
  if (copies_) copies_->visit_state(visitor);
  if (joint_) joint_->visit_state(visitor);
}

void StageRunner::visit_stage(StateVisitor& visitor, StageState& stage) {
  visitor.parameters("weights", stage.weights);
  visitor.parameters("gradient", stage.gradient);
  visitor.number(stage.version);
  stage.module->visit_state(visitor);
  stage.stash.visit_state(visitor, "versions");
  stage.activations.visit_state(visitor, "activations");
  std::vector<std::int64_t> takers(stage.takers.begin(), stage.takers.end());
  visitor.numbers(takers);
  stage.takers.assign(takers.begin(), takers.end());
  stage.errors.visit_state(visitor, "errors");
  stage.outputs.visit_state(visitor, "outputs");
  stage.inputs.visit_state(visitor, "inputs");
  stage.tapes.visit_state(visitor, "tapes", *stage.module);
  if (stage.head == nullptr) return;
  const StateVisitor::Scope scope(visitor, "head");
  stage.head->visit_state(visitor);
}

}  // namespace unlatch::exec
