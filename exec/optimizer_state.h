// The state of an optimizer, saved and restored.
#pragma once

#include "exec/state_visitor.h"
#include "models/optimizer.h"

namespace unlatch::exec {

template <class Real>
void visit_optimizer(StateVisitor& visitor, models::Optimizer<Real>& optimizer) {
  visitor.reals("optimizer", optimizer.state());
  std::int64_t steps = optimizer.steps();
  visitor.number(steps);
  if (visitor.restores()) optimizer.set_steps(steps);
}

}  // namespace unlatch::exec
