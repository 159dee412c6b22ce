#include "tools/cluster_workload.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "schedules/error.h"
#include "sim/roofline.h"
#include "tools/device_option.h"
#include "tools/model_options.h"
#include "tools/training.h"

namespace unlatch::tools {
namespace {

constexpr double float_bytes = sizeof(float);

/// Devices of the ranks of a graph.
class Places {
 public:
  Places(const sim::Cluster& cluster, const TaskGraph& graph) : cluster_(cluster), graph_(graph) {
    const auto places = static_cast<int>(cluster.placement().size());
    require(graph.ranks() <= places, "{} ranks, but the cluster {} has places for {}",
            graph.ranks(), cluster.name(), places);
  }
  int device(Stage k) const { return cluster_.placement()[graph_.rank_of(k).value]; }
  sim::Route route(Stage from, Stage to) const { return cluster_.route(device(from), device(to)); }

 private:
  const sim::Cluster& cluster_;
  const TaskGraph& graph_;
};

nanoseconds time_on(const sim::Route& route, double bytes) {
  if (route.links.empty()) return nanoseconds(0);
  constexpr double most_ns = 4e18;
  const double ns = bytes / route.rate * 1e9;
  require(ns < most_ns,
          "a transfer of {:g} bytes would last longer than 126 years; check the hardware file",
          bytes);
  return route.latency + nanoseconds(std::llround(ns));
}

/// Of what stage k hands on.
double output_bytes(const PieceCosts& piece, std::span<const models::StageRange> ranges, int k) {
  return piece.output_bytes[static_cast<std::size_t>(ranges[static_cast<std::size_t>(k)].last)];
}

/// The lowest rate and the longest latency of a ring of the same stage in all copies, in their
/// order and back to the first.
sim::Route slowest_of_ring(const Places& places, const Shape& shape, Stage stage) {
  sim::Route slowest{.links = {}, .latency = {}, .rate = INFINITY};
  Stage before = shape.in_all_copies(stage).back();
  for (const Stage copy : shape.in_all_copies(stage)) {
    const sim::Route route = places.route(before, copy);
    slowest.rate = std::min(slowest.rate, route.rate);
    slowest.latency = std::max(slowest.latency, route.latency);
    before = copy;
  }
  return slowest;
}

double parameter_bytes(const PieceCosts& piece, const models::StageRange& range) {
  double sum = 0;
  for (int j = range.first; j <= range.last; ++j) {
    sum += piece.parameter_bytes[static_cast<std::size_t>(j)];
  }
  return sum;
}

/// Every stage sends its output on and its input's gradient back, over the route between two
/// devices.
class ClusterTraffic : public sim::Traffic {
 public:
  ClusterTraffic(const ClusterWorkload& workload, const PieceCosts& piece,
                 std::span<const models::StageRange> ranges, const TaskGraph& graph) {
    for (const sim::Link& link : workload.cluster.links()) links_.push_back(link.rate);
    const Places places(workload.cluster, graph);
    const Shape& shape = graph.shape();
    forward_.resize(static_cast<std::size_t>(shape.stages));
    backward_.resize(forward_.size());
    for (const Stage k : up_to<Stage>(shape.stages)) {
      if (shape.is_last(k)) continue;
      const double bytes = output_bytes(piece, ranges, shape.model_stage(k).value);
      const auto at = static_cast<std::size_t>(k.value);
      forward_[at] = transfer(places.route(k, k + 1), bytes);
      backward_[at + 1] = transfer(places.route(k + 1, k), bytes);
    }
  }
  const std::vector<double>& links() const override { return links_; }
  const sim::Transfer* transfer(const Task& task) const override {
    if (!is_send(task.op)) return nullptr;
    const auto& transfers = task.op == Op::send_forward ? forward_ : backward_;
    return &transfers[static_cast<std::size_t>(task.stage.value)];
  }

 private:
  static sim::Transfer transfer(const sim::Route& route, double bytes) {
    return {route.links, route.latency, bytes};
  }
  std::vector<double> links_;
  std::vector<sim::Transfer> forward_, backward_;  ///< by sending stage
};

}  // namespace

ClusterWorkload read_cluster_workload(const Arguments& arguments) {
  ClusterWorkload workload{.cluster = sim::read_cluster(*arguments.text("cluster")),
                           .model = {},
                           .precision = asked_precision(arguments),
                           .optimizer = asked_optimizer(arguments)};
  workload.model = asked_facts(arguments, static_cast<double>(exec::bytes_of(workload.precision)));
  workload.links_are_shared = arguments.choice("contention", {"none", "fair"}) == "fair";
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
  piece.optimizer_state = workload.optimizer.momentum > 0;
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
    const double state = piece.optimizer_state ? 2 : 0;
    piece.update.push_back(own > 0 ? time(4 * own, own * float_bytes * (3 + state)) : 0);
    piece.output_bytes.push_back(layer.output_bytes * samples);
    piece.tape_bytes.push_back(layer.tape_bytes * samples);
    piece.weight_grad_activation_bytes.push_back(layer.weight_grad_activation_bytes * samples);
    piece.parameter_bytes.push_back(own * float_bytes);
    piece.handover.push_back(0);
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

Placement placement_of(const sim::Cluster& cluster, const TaskGraph& graph) {
  const Places places(cluster, graph);
  Placement placement;
  for (int r = 0; r < graph.ranks(); ++r) {
    placement.devices.push_back(cluster.placement()[r]);
    placement.nodes.push_back(cluster.node_of(placement.devices.back()));
    const sim::DeviceType& type = cluster.type_of(placement.devices.back());
    placement.types.push_back(type.name);
    placement.memory.push_back(type.memory);
  }
  const auto node = [&](Stage k) { return cluster.node_of(places.device(k)); };
  for (const Stage k : up_to<Stage>(graph.shape().stages)) {
    if (graph.shape().is_last(k) || node(k) == node(k + 1)) continue;
    placement.borders.emplace_back(k.value, k.value + 1);
  }
  return placement;
}

void set_transfers(const ClusterWorkload& workload, const PieceCosts& piece,
                   std::span<const models::StageRange> ranges, const TaskGraph& graph,
                   sim::StageTimes& times) {
  const Places places(workload.cluster, graph);
  const Shape& shape = graph.shape();
  for (const Stage k : up_to<Stage>(times.stages() - 1)) {
    if (shape.is_last(k)) continue;
    const double bytes = output_bytes(piece, ranges, shape.model_stage(k).value);
    const auto at = static_cast<std::size_t>(k.value);
    times.activation_transfer[at] = time_on(places.route(k, k + 1), bytes);
    times.gradient_transfer[at] = time_on(places.route(k + 1, k), bytes);
  }
  if (shape.copies == 1) return;
  for (const Stage k : up_to<Stage>(times.stages())) {
    const sim::Route slowest = slowest_of_ring(places, shape, k);
    const models::StageRange& range = ranges[static_cast<std::size_t>(shape.model_stage(k).value)];
    times.all_reduce.push_back(sim::ring_all_reduce_time(
        shape.copies, parameter_bytes(piece, range), slowest.rate, slowest.latency));
  }
}

std::vector<std::int64_t> cluster_tapes(const ClusterWorkload& workload, int size,
                                        std::span<const models::StageRange> ranges) {
  std::vector<std::int64_t> tapes;
  for (const models::StageRange& range : ranges) {
    tapes.push_back(whole_bytes(workload.model.tape_bytes(range) * size));
  }
  return tapes;
}

std::shared_ptr<const sim::Traffic> cluster_traffic(const ClusterWorkload& workload,
                                                    const PieceCosts& piece,
                                                    std::span<const models::StageRange> ranges,
                                                    const TaskGraph& graph) {
  if (!workload.links_are_shared) return nullptr;
  return std::make_shared<ClusterTraffic>(workload, piece, ranges, graph);
}

}  // namespace unlatch::tools
