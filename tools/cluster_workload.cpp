#include "tools/cluster_workload.h"

#include <algorithm>
#include <cmath>
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
                           .model = asked_model(arguments),
                           .precision = asked_precision(arguments),
                           .optimizer = asked_optimizer(arguments)};
  workload.links_are_shared = arguments.choice("contention", {"none", "fair"}) == "fair";
  return workload;
}

/// F reads input and weights and writes the output; I and W read two of these three and write the
/// third, as gradients; U reads weights, gradients and state and writes weights and state.
PieceCosts cluster_costs(const ClusterWorkload& workload, int size) {
  const sim::DeviceType& device = workload.device_type();
  const std::string format(exec::name(workload.precision));
  const auto time = [&](double flops, double bytes) {
    return static_cast<double>(sim::roofline_time(device, format, {flops, bytes}).count());
  };
  const auto shapes = workload.model.shapes();
  const double element = static_cast<double>(exec::bytes_of(workload.precision));
  const double samples = size;
  PieceCosts piece;
  piece.optimizer_state = workload.optimizer.momentum > 0;
  piece.input_bytes = static_cast<double>(shapes.front().elements()) * element * samples;
  for (std::size_t j = 0; j < workload.model.layers.size(); ++j) {
    const models::Layer& layer = workload.model.layers[j];
    const auto of_samples = [&](std::int64_t fact) { return static_cast<double>(fact) * samples; };
    const double in = of_samples(shapes[j].elements()) * element;
    const double out = of_samples(shapes[j + 1].elements()) * element;
    const double parameters = static_cast<double>(models::parameter_count(layer, shapes[j]));
    const double weights = parameters * element;
    const double flops = of_samples(models::forward_flops(layer, shapes[j]));
    const double back = of_samples(models::backward_flops(layer, shapes[j]));
    // Convolutions and matrices do the same work for either gradient.
    const double share = parameters > 0 ? 0.5 : 1;
    piece.forward.push_back(time(flops, in + out + weights));
    piece.input_gradient.push_back(time(back * share, in + out + weights));
    piece.weight_gradient.push_back(parameters > 0 ? time(back * share, in + out + weights) : 0);
    piece.backward.push_back(piece.input_gradient.back() + piece.weight_gradient.back());
    const double state = piece.optimizer_state ? 2 : 0;
    const double update_bytes = parameters * float_bytes * (3 + state);
    piece.update.push_back(parameters > 0 ? time(4 * parameters, update_bytes) : 0);
    piece.output_bytes.push_back(out);
    piece.tape_bytes.push_back(of_samples(models::tape_bytes(layer, shapes[j])) * element /
                               float_bytes);
    piece.weight_grad_activation_bytes.push_back(
        of_samples(models::weight_grad_activation_bytes(layer, shapes[j])) * element / float_bytes);
    piece.parameter_bytes.push_back(parameters * float_bytes);
    piece.handover.emplace_back();
  }
  piece.forward_only = piece.forward;
  return piece;
}

Placement placement_of(const sim::Cluster& cluster, const TaskGraph& graph) {
  const Places places(cluster, graph);
  Placement placement;
  for (int r = 0; r < graph.ranks(); ++r) {
    placement.devices.push_back(cluster.placement()[r]);
    placement.nodes.push_back(cluster.node_of(placement.devices.back()));
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
  const auto shapes = workload.model.shapes();
  constexpr std::int64_t float_size = sizeof(float);
  const auto element = static_cast<std::int64_t>(exec::bytes_of(workload.precision));
  std::vector<std::int64_t> tapes;
  for (const models::StageRange& range : ranges) {
    const auto first = static_cast<std::size_t>(range.first);
    const std::int64_t tape = models::tape_bytes(workload.model.layers_of(range), shapes[first]);
    tapes.push_back(tape * element / float_size * size);
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
