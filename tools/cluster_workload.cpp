#include "tools/cluster_workload.h"

#include "sim/roofline.h"
#include "tools/device_option.h"
#include "tools/model_options.h"
#include "tools/training.h"

namespace unlatch::tools {
namespace {

constexpr double float_bytes = sizeof(float);

}  // namespace

ClusterWorkload read_cluster_workload(const Arguments& arguments) {
  ClusterWorkload workload{.cluster = sim::read_cluster(*arguments.text("cluster")),
                           .model = asked_model(arguments),
                           .precision = asked_precision(arguments),
                           .optimizer = asked_optimizer(arguments)};
  workload.links_are_shared = arguments.choice("contention", {"none", "fair"}) == "fair";
  workload.tree_reduces = arguments.choice("all-reduce", {"ring", "tree"}) == "tree";
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
    piece.handover.push_back(0);
  }
  piece.forward_only = piece.forward;
  return piece;
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

}  // namespace unlatch::tools
