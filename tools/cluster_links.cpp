#include "tools/cluster_links.h"

#include <cmath>
#include <string>
#include <utility>

#include "schedules/error.h"
#include "sim/all_reduce.h"
#include "sim/roofline.h"
#include "tools/cluster_places.h"

namespace unlatch::tools {
namespace {

using Transfers = std::vector<sim::Transfer>;

sim::Transfer transfer(const Places& places, Stage from, Stage to, double bytes) {
  sim::Route way = places.route(from, to);
  return {std::move(way.links), way.latency, bytes};
}

std::size_t at(Stage k) { return static_cast<std::size_t>(k.value); }

double parameter_bytes(const PieceCosts& piece, const models::StageRange& range) {
  double sum = 0;
  for (int j = range.first; j <= range.last; ++j) {
    sum += piece.parameter_bytes[static_cast<std::size_t>(j)];
  }
  return sum;
}

/// Between the copies of a stage, in their order. An entry of a compressed gradient is its value
/// and, as long, its index.
Transfers joining_copies(const ClusterWorkload& workload, const TaskGraph& graph,
                         const Places& places, Stage k, double bytes) {
  std::vector<Stage> copies;
  for (const Stage copy : graph.shape().in_all_copies(k)) copies.push_back(copy);
  const auto members = static_cast<int>(copies.size());
  const double ratio = graph.learning().agreement.compression.ratio;
  const sim::Collective collective = ratio < 1               ? sim::ring_all_gather(members)
                                     : workload.tree_reduces ? sim::tree_all_reduce(members)
                                                             : sim::ring_all_reduce(members);
  const auto route = [&](int from, int to) {
    return places.route(copies[static_cast<std::size_t>(from)],
                        copies[static_cast<std::size_t>(to)]);
  };
  return sim::transfers_of(collective, ratio < 1 ? 2 * ratio * bytes : bytes, route);
}

/// A server adds what the copies send, one after the other, and updates its weights once.
nanoseconds sum_and_update(const sim::DeviceType& device, exec::Precision precision,
                           const PieceCosts& piece, const models::StageRange& range, int copies) {
  double ns = 0;
  for (int j = range.first; j <= range.last; ++j) ns += piece.update[static_cast<std::size_t>(j)];
  const double bytes = parameter_bytes(piece, range);
  const double additions = (copies - 1) * bytes / sizeof(float);
  const sim::Work adding{additions, 3 * (copies - 1) * bytes};  // reads two, writes one
  return nanoseconds(std::llround(ns)) +
         sim::roofline_time(device, std::string(exec::name(precision)), adding);
}

}  // namespace

ClusterTraffic::ClusterTraffic(const ClusterWorkload& workload, const StagePieces& pieces,
                               std::span<const models::StageRange> ranges, const TaskGraph& graph) {
  for (const sim::Link& link : workload.cluster.links()) links_.push_back(link.rate);
  const Places places(workload.cluster, graph);
  const Shape& shape = graph.shape();
  const Agreement& agreement = graph.learning().agreement;
  const PieceCosts& piece = pieces.kinds.front();  // bytes are the same on all devices
  forward_.resize(static_cast<std::size_t>(shape.stages));
  backward_.resize(forward_.size());
  for (const Stage k : up_to<Stage>(shape.stages)) {
    const models::StageRange& range = ranges[at(shape.model_stage(k))];
    if (!shape.is_last(k)) {
      const double output = piece.output_bytes[static_cast<std::size_t>(range.last)];
      forward_[at(k)] = {transfer(places, k, k + 1, output)};
      backward_[at(k + 1)] = {transfer(places, k + 1, k, output)};
    }
    if (shape.copies == 1) continue;
    const double weights = parameter_bytes(piece, range);
    const bool of_first_copy = shape.copy_of(k) == 0;
    if (!agreement.has_server()) {
      if (of_first_copy) {
        all_reduce_.push_back(joining_copies(workload, graph, places, k, weights));
      }
      continue;
    }
    push_.push_back({transfer(places, k, shape.model_stage(k), weights)});
    pull_.push_back({transfer(places, shape.model_stage(k), k, weights)});
    if (agreement.kind == Agreement::Kind::delayed && of_first_copy) {
      server_sum_.push_back(sum_and_update(places.device_type(k), workload.precision, pieces.of(k),
                                           range, shape.copies));
    }
  }
}

std::span<const sim::Transfer> ClusterTraffic::transfers(const Task& task) const {
  const auto of = [&](const ByStage& all) {
    return all.empty() ? std::span<const sim::Transfer>{} : all[at(task.stage)];
  };
  switch (task.op) {
    case Op::send_forward:
      return of(forward_);
    case Op::send_backward:
      return of(backward_);
    case Op::push_gradients:
      return of(push_);
    case Op::pull_weights:
      return of(pull_);
    case Op::all_reduce:
      return of(all_reduce_);
    default:
      return {};
  }
}

void ClusterTraffic::set_times(sim::StageTimes& times) const {
  const auto stages = static_cast<std::size_t>(times.stages());
  const auto time = [this](const Transfers& all) { return sim::time_alone(all, links_); };
  for (std::size_t k = 0; k + 1 < stages; ++k) {
    if (!forward_[k].empty()) times.activation_transfer[k] = time(forward_[k]);
    if (!backward_[k + 1].empty()) times.gradient_transfer[k] = time(backward_[k + 1]);
  }
  const auto set = [&](const ByStage& all, std::vector<nanoseconds>& of_stages) {
    if (all.empty()) return;
    std::vector<nanoseconds> each;
    for (const Transfers& transfers : all) each.push_back(time(transfers));
    for (std::size_t k = 0; k < stages; ++k) of_stages.push_back(each[k % each.size()]);
  };
  set(all_reduce_, times.all_reduce);
  set(push_, times.push);
  set(pull_, times.pull);
  for (std::size_t k = 0; k < stages && !server_sum_.empty(); ++k) {
    times.all_reduce.push_back(server_sum_[k % server_sum_.size()]);
  }
}

}  // namespace unlatch::tools
