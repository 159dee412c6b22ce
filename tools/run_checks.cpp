#include "tools/run_checks.h"

#include <algorithm>

#include "schedules/error.h"
#include "tools/model_options.h"

namespace unlatch::tools {

void require_pieces_fit(const Arguments& arguments, const TrainingPlan& plan) {
  const std::string name = *arguments.text("model");
  for (const int samples : plan.piece_sizes()) {
    require_piece_fits(name, plan.model, samples);
  }
}

void require_heads_fit(const TrainingPlan& plan, const TaskGraph& graph) {
  require(plan.piece_sizes().size() == 1 ||
              graph.learning().local_gradients.source == GradientSource::next_stage,
          "{}: its local heads take micro-batches of one size; leave out --uneven and --batch-ramp",
          plan.spec.text());
}

void require_updates(const TrainingPlan& plan, const TaskGraph& graph) {
  const bool updates =
      std::ranges::any_of(graph.ids(), [&](TaskId id) { return graph.task(id).op == Op::update; });
  require(updates, "{} reaches no update in {} batch{}, so nothing would be learned; train longer",
          plan.spec.text(), plan.shape.batches, plan.shape.batches == 1 ? "" : "es");
}

}  // namespace unlatch::tools
