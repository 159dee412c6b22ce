#include "exec/tied_gradients.h"

#include "schedules/error.h"

namespace unlatch::exec {

TiedGradients::TiedGradients(const TaskGraph& graph, std::vector<StageState>& stages)
    : graph_(graph), stages_(stages), found_(stages.size()) {
  const Shape& shape = graph.shape();
  require(graph.learning().joint_updates,
          "{}: its stages update before the gradients of all others are there, so the copies of a "
          "tied table would not stay one table; untie the head",
          graph.schedule());
  for (const Stage k : up_to<Stage>(shape.stages)) {
    const bool is_end = shape.is_first(k) != shape.is_last(k);
    const std::size_t expected = is_end ? tied_bytes(Stage{0}) : 0;
    require(tied_bytes(k) == expected,
            "{}: stage {} holds {} bytes of a tied table; first and last stage must hold the same "
            "and no other any, here {}",
            graph.schedule(), k.value, tied_bytes(k), expected);
    if (is_end) found_[k.value] = state(k).module->copy_of(tied_gradient(k));
  }
}

Tensor TiedGradients::tied_gradient(Stage k) const {
  const Tensor& all = state(k).gradient;
  return all.part(graph_.shape().is_first(k) ? 0 : all.bytes() - tied_bytes(k), tied_bytes(k));
}

Tensor TiedGradients::own_gradient(Stage k) const {
  const Tensor& all = state(k).gradient;
  return all.part(graph_.shape().is_first(k) ? tied_bytes(k) : 0, all.bytes() - tied_bytes(k));
}

void TiedGradients::note_whole(Stage k) {
  Tensor& found = found_[k.value];
  if (found.empty()) return;
  ParameterMath& math = state(k).module->math();
  math.clear(found);
  math.add(tied_gradient(k), found);
}

Tensor TiedGradients::sum(Stage k) const {
  const Stage last = graph_.shape().last_of(k);
  const Stage first = last - (graph_.shape().stages_a_copy() - 1);
  StageModule& module = *state(k).module;
  Tensor sum = module.copy_of(found_[first.value]);
  module.math().add(found_[last.value], sum);
  return sum;
}

void TiedGradients::replace(Stage k) {
  if (found_[k.value].empty()) return;
  ParameterMath& math = state(k).module->math();
  Tensor own = tied_gradient(k);
  math.clear(own);
  math.add(sum(k), own);
}

void TiedGradients::visit_state(StateVisitor& visitor) {
  for (std::size_t k = 0; k < found_.size(); ++k) {
    visitor.parameters(fmt::format("tied gradient of stage {}", k), found_[k]);
  }
}

}  // namespace unlatch::exec
