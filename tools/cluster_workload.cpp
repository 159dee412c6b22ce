#include "tools/cluster_workload.h"

#include <map>

#include "sim/roofline.h"
#include "tools/cluster_places.h"
#include "tools/device_option.h"
#include "tools/model_options.h"
#include "tools/placed_errors.h"
#include "tools/training.h"

namespace unlatch::tools {
namespace {

constexpr double float_bytes = sizeof(float);

}  // namespace

ClusterWorkload read_cluster_workload(const Arguments& arguments) {
  ClusterWorkload workload{
      .cluster = reading(arguments, "cluster",
                         [&] { return sim::read_cluster(*arguments.text("cluster")); }),
      .model = {},
      .precision = asked_precision(arguments),
      .optimizer = asked_optimizer(arguments)};
  workload.model = asked_facts(arguments, static_cast<double>(exec::bytes_of(workload.precision)));
  if (const auto devices = arguments.wholes("placement"); !devices.empty()) {
    workload.cluster =
        reading(arguments, "placement", [&] { return workload.cluster.with_placement(devices); });
  }
  workload.links_are_shared = arguments.choice("contention", {"none", "fair"}) == "fair";
  workload.tree_reduces = arguments.choice("all-reduce", {"ring", "tree"}) == "tree";
  return workload;
}

/// U reads weights, gradients and state and writes weights and state.
PieceCosts cluster_costs(const ClusterWorkload& workload, const sim::DeviceType& device, int size,
                         int stages) {
  const std::string format(exec::name(workload.precision));
  const auto time = [&](double flops, double bytes) {
    return static_cast<double>(sim::roofline_time(device, format, {flops, bytes}).count());
  };
  const auto element = static_cast<double>(exec::bytes_of(workload.precision));
  const double samples = size;
  PieceCosts piece;
  piece.optimizer_slots = workload.optimizer.slots();
  piece.input_bytes = workload.model.input_bytes * samples;
  for (const models::LayerFacts& layer : workload.model.layers) {
    const bool is_first = piece.forward.empty();
    const double weights = static_cast<double>(layer.read_parameters) * element;
    const double moved = layer.moved_bytes * samples + weights;
    const double moved_for_weights = layer.weight_gradient_moved_bytes * samples + weights;
    const bool trains = layer.parameters > 0;
    piece.forward.push_back(time(layer.forward_flops * samples, moved));
    piece.input_gradient.push_back(is_first ? 0
                                            : time(layer.input_gradient_flops * samples, moved));
    piece.weight_gradient.push_back(
        trains ? time(layer.weight_gradient_flops * samples, moved_for_weights) : 0);
    piece.backward.push_back(piece.input_gradient.back() + piece.weight_gradient.back());
    const double own = layer.tied && stages == 1 ? 0 : static_cast<double>(layer.parameters);
    const double state = 2 * piece.optimizer_slots;
    piece.update.push_back(own > 0 ? time(4 * own, own * float_bytes * (3 + state)) : 0);
    piece.output_bytes.push_back(layer.output_bytes * samples);
    piece.tape_bytes.push_back(layer.tape_bytes * samples);
    piece.weight_grad_activation_bytes.push_back(layer.weight_grad_activation_bytes * samples);
    piece.parameter_bytes.push_back(own * float_bytes);
    piece.handover.emplace_back();
  }
  piece.forward_only = piece.forward;
  return piece;
}

StagePieces cluster_pieces(const ClusterWorkload& workload, int size, const TaskGraph& graph) {
  const Places places(workload.cluster, graph);
  StagePieces pieces;
  std::map<int, int> kinds;  // of the types in use
  for (const Stage k : up_to<Stage>(graph.shape().stages)) {
    const int type = workload.cluster.type_index(places.device(k));
    const auto [kind, added] = kinds.try_emplace(type, static_cast<int>(pieces.kinds.size()));
    if (added) {
      pieces.kinds.push_back(cluster_costs(workload, workload.cluster.types()[type], size,
                                           graph.shape().stages_a_copy()));
    }
    pieces.kind_of.push_back(kind->second);
  }
  return pieces;
}

std::vector<sim::Route> routes_of(const sim::Cluster& cluster, const TaskGraph& graph) {
  const Places places(cluster, graph);
  std::vector<sim::Route> routes;
  for (const Stage k : up_to<Stage>(graph.shape().stages_a_copy() - 1)) {
    routes.push_back(places.route(k, k + 1));
  }
  return routes;
}

std::vector<std::int64_t> cluster_tapes(const ClusterWorkload& workload, int size,
                                        std::span<const models::StageRange> ranges) {
  std::vector<std::int64_t> tapes;
  for (const models::StageRange& range : ranges) {
    tapes.push_back(whole_bytes(workload.model.tape_bytes(range) * size));
  }
  return tapes;
}

}  // namespace unlatch::tools
