// Costs of tasks from those of layers: measured ones, or those of a cluster's devices.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "exec/cpu_backend.h"
#include "schedules/error.h"
#include "tools/cluster_links.h"
#include "tools/placed_errors.h"
#include "tools/training.h"
#include "tools/workload.h"

namespace unlatch::tools {
namespace {

/// Workers that share the lanes of a run on the CPU; 0 where every lane has one of its own.
int shared_workers(const LayerWorkload& layers, const TaskGraph& graph) {
  if (!layers.profile || !layers.profile->of_cpu()) return 0;
  const int workers =
      layers.threads > 0 ? layers.threads : exec::CpuBackend::default_workers(graph);
  return exec::CpuBackend::lanes_share_a_worker(graph, workers) ? workers : 0;
}

/// Every stage pays for its layers on the slowest device among the copies of the model, layer by
/// layer.
StagePrices prices_of_stages(const StagePieces& pieces, const std::vector<bool>& pays_recompute) {
  using Kind = std::pair<std::set<int>, bool>;  // of pieces, and whether it pays
  const std::size_t stages = pays_recompute.size();
  StagePrices prices;
  std::map<Kind, int> kinds;
  for (std::size_t k = 0; k < stages; ++k) {
    Kind kind{{}, pays_recompute[k]};
    for (std::size_t s = k; s < pieces.kind_of.size(); s += stages) {
      kind.first.insert(pieces.kind_of[s]);
    }
    if (kind.first.empty()) kind.first.insert(0);
    const auto [place, added] = kinds.try_emplace(kind, static_cast<int>(prices.costs.size()));
    prices.kind_of.push_back(place->second);
    if (!added) continue;
    std::vector<double> costs(pieces.kinds.front().forward.size(), 0.0);
    for (const int i : kind.first) {
      const PieceCosts& piece = pieces.kinds[static_cast<std::size_t>(i)];
      for (std::size_t j = 0; j < costs.size(); ++j) {
        const double recompute = kind.second ? piece.forward[j] : 0;
        costs[j] = std::max(costs[j], piece.forward[j] + piece.backward[j] + recompute);
      }
    }
    prices.costs.push_back(std::move(costs));
  }
  return prices;
}

/// Of all copies.
sim::StageTimes times_of_stages(const StagePieces& pieces,
                                const std::vector<models::StageRange>& partition,
                                const std::vector<bool>& replays, double overlap, int copies) {
  std::vector<sim::StageTimes> kinds;
  for (const PieceCosts& piece : pieces.kinds) {
    kinds.push_back(stage_times_of(piece, partition, replays, overlap).for_copies(copies));
  }
  sim::StageTimes times = kinds.front();
  for (std::size_t k = 0; k < pieces.kind_of.size(); ++k) {
    times.take_stage(static_cast<int>(k), kinds[static_cast<std::size_t>(pieces.kind_of[k])]);
  }
  return times;
}

}  // namespace

double usual_overlap(const LayerWorkload& layers, const TaskGraph& graph) {
  return layers.profile && layers.profile->of_cpu() && shared_workers(layers, graph) == 0 ? 1 : 0;
}

TaskCosts LayerWorkload::costs(const TaskGraph& graph, double busy, const TaskGraph& placed) const {
  const int size = batch_size / graph.shape().micro_batches;
  const StagePieces there = pieces(size, busy, graph, placed);
  const double hidden_share = overlap ? *overlap : usual_overlap(*this, graph);
  const std::vector<bool> replays = replaying_stages(graph);
  const std::vector<bool> hidden(replays.size(), false);
  TaskCosts result;
  // Partitions must not move between estimates of `busy`: they follow from one worker's costs.
  const StagePieces alone = pieces(size, 1, graph, placed);
  result.partition = partition(prices_of_stages(alone, hidden_share < 1 ? replays : hidden));
  const int copies = graph.shape().copies;
  result.times = times_of_stages(there, result.partition, replays, hidden_share, copies);
  result.times.workers = shared_workers(*this, graph);
  const PieceCosts& piece = there.kinds.front();  // bytes are the same on all devices
  result.sizes = memory_sizes_of(piece, result.partition);
  if (cluster) {
    result.sizes.activation = cluster_tapes(*cluster, size, result.partition);
    const auto traffic =
        std::make_shared<const ClusterTraffic>(*cluster, there, result.partition, placed);
    traffic->set_times(result.times);
    result.placement = placement_of(cluster->cluster, placed);
    if (cluster->links_are_shared) result.traffic = traffic;
  }
  return result;
}

StagePieces LayerWorkload::pieces(int size, double busy, const TaskGraph& graph,
                                  const TaskGraph& placed) const {
  if (profile) {
    return {.kinds = {piece_costs(*profile, size, busy, graph.shape().stages_a_copy())}};
  }
  StagePieces pieces = cluster_pieces(*cluster, size, placed);
  pieces.kind_of.resize(static_cast<std::size_t>(graph.shape().stages));
  return pieces;
}

LayerWorkload read_layers(const Arguments& arguments) {
  LayerWorkload layers;
  if (arguments.has("cluster")) {
    layers.cluster = read_cluster_workload(arguments);
  } else {
    layers.profile =
        reading(arguments, "profile", [&] { return read_profile(*arguments.text("profile")); });
  }
  layers.batch_size = arguments.whole("batch-size", 1);
  if (arguments.has("overlap")) layers.overlap = arguments.real("overlap", 1, 0, 1);
  layers.threads = asked_threads(arguments);
  layers.partition = [&arguments](const StagePrices& prices) {
    return asked_partition(arguments, prices);
  };
  return layers;
}

}  // namespace unlatch::tools
