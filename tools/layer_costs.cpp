#include "tools/layer_costs.h"

#include <algorithm>
#include <utility>

#include "schedules/error.h"
#include "tools/model_options.h"
#include "tools/simulation.h"

namespace unlatch::tools {
namespace {

sim::LayerFacts facts_of(const PieceCosts& piece) {
  sim::LayerFacts facts{.forward = piece.forward,
                        .backward = piece.backward,
                        .recompute = piece.forward,
                        .update = piece.update,
                        .handover_in = {},
                        .handover_out = {},
                        .output_bytes = piece.output_bytes,
                        .tape_bytes = piece.tape_bytes,
                        .half_tape_bytes = piece.weight_grad_activation_bytes,
                        .weight_bytes = piece.parameter_bytes,
                        .state_bytes = piece.parameter_bytes,
                        .input_bytes = piece.input_bytes};
  for (const exec::HandoverCost& cost : piece.handover) {
    facts.handover_in.push_back(cost.forward_in + cost.backward_out);
    facts.handover_out.push_back(cost.forward_out + cost.backward_in);
  }
  facts.forward.front() += piece.input;
  facts.forward.back() += piece.target + piece.loss;
  for (double& bytes : facts.state_bytes) bytes *= 1 + piece.optimizer_slots;
  return facts;
}

std::vector<sim::Way> ways_of(const std::vector<sim::Route>& routes) {
  std::vector<sim::Way> ways;
  for (const sim::Route& route : routes) {
    ways.push_back({.latency_ns = static_cast<double>(route.latency.count()),
                    .ns_per_byte = route.links.empty() ? 0 : 1e9 / route.rate});
  }
  return ways;
}

void require_whole_pieces(int batch, const Shape& shape) {
  require(batch % shape.micro_batches == 0,
          "--batch-size {} is not divisible by {} micro-batches{}", batch,
          shape.micro_batches / shape.replicas,
          shape.replicas > 1 ? fmt::format(" x {} replicas", shape.replicas) : "");
}

std::vector<double> work_of(const PieceCosts& piece) {
  std::vector<double> work;
  for (std::size_t j = 0; j < piece.forward.size(); ++j) {
    work.push_back(piece.forward[j] + piece.backward[j]);
  }
  return work;
}

/// The workload of simulate, but for a split that is set from outside.
struct SplitWorkload {
  Workload workload;
  sim::Split split;

  SplitWorkload(const LayerWorkload& layers, const Shape& shape) {
    workload.shape = shape;
    workload.layers = layers;
    workload.layers->partition = [this](const StagePrices&) { return split; };
  }
  SplitWorkload(const SplitWorkload&) = delete;
  SplitWorkload& operator=(const SplitWorkload&) = delete;
};

}  // namespace

sim::LayerCosts layer_costs(const std::shared_ptr<const LayerWorkload>& layers,
                            const std::string& partition, const ScheduleSpec& spec,
                            const Shape& shape, const TaskGraph& tasks) {
  require_whole_pieces(layers->batch_size, tasks.shape());
  const int size = layers->batch_size / tasks.shape().micro_batches;
  const StagePieces pieces = layers->pieces(size, 1, tasks, tasks);
  sim::LayerCosts costs;
  for (const PieceCosts& kind : pieces.kinds) costs.layers.push_back(facts_of(kind));
  costs.kinds = pieces.kind_of;
  costs.overlap = layers->overlap ? *layers->overlap : usual_overlap(*layers, tasks);
  if (layers->cluster) {
    costs.ways = ways_of(routes_of(layers->cluster->cluster, tasks));
    costs.floor_holds = true;  // measured layers may be faster with other workers beside them
  }
  if (partition != "auto") {
    costs.given = split_by(partition, work_of(pieces.kinds.front()), tasks.shape().stages_a_copy());
  }
  const auto own = std::make_shared<SplitWorkload>(*layers, shape);
  costs.of = [own, spec, &tasks](const sim::Split& split) {
    own->split = split;
    const bool slow_together = own->workload.layers->profile.has_value();
    const double busy = slow_together ? busy_ranks(spec, own->workload, tasks) : 1;
    TaskCosts of_tasks = own->workload.costs_for(spec, tasks, busy);
    return sim::SplitCosts{std::move(of_tasks.times), std::move(of_tasks.sizes),
                           std::move(of_tasks.traffic)};
  };
  return costs;
}

}  // namespace unlatch::tools
