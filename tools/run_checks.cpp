#include "tools/run_checks.h"

#include <algorithm>

#include "models/layer_sizes.h"
#include "schedules/error.h"
#include "tools/measured.h"
#include "tools/model_options.h"

namespace unlatch::tools {

void require_pieces_fit(const Arguments& arguments, const TrainingPlan& plan) {
  const std::string name = *arguments.text("model");
  for (const int samples : plan.piece_sizes()) {
    require_piece_fits(name, plan.model, samples);
    const auto norm = models::one_valued_norm(plan.model, samples);
    require(!norm,
            "model {}: batch norm {} sees one value a channel in a micro-batch of {} sample, whose "
            "variance is 0, so that nothing would be learned in front of it; raise --batch-size or "
            "lower --microbatches until each holds 2 or more{}, or leave that layer out",
            name, norm.value_or(""), samples,
            arguments.has("uneven") || arguments.has("batch-ramp")
                ? " (--uneven and --batch-ramp make smaller ones)"
                : "");
  }
}

void require_statistics_at_hand(const Arguments& arguments, const TrainingPlan& plan,
                                const TaskGraph& graph) {
  const models::StageRange all{0, static_cast<int>(plan.model.layers.size()) - 1};
  if (!plan.test_points || models::initial_statistics(plan.model, all).empty()) return;
  const bool compares = arguments.has("train");
  const std::string asking = arguments.place(compares ? "train" : "evaluate-every");
  require(!graph.learning().agreement.has_server(),
          "{} evaluates the model on its way, and the server of {} keeps no running statistics of "
          "the batch norms of {}; leave {} out",
          asking, plan.spec.text(), plan.model.name, compares ? "that schedule" : asking);
  const bool recomputes = std::ranges::count(replaying_stages(graph), true) > 0;
  require(plan.statistics == exec::StatisticUpdates::forward || !recomputes,
          "{} evaluates the model on its way, and with {} the recomputation of {} may move the "
          "running statistics of the batch norms of {} meanwhile; leave {} out",
          asking, arguments.place("batch-norm-updates"), plan.spec.text(), plan.model.name,
          arguments.place("batch-norm-updates"));
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
