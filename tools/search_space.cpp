#include "tools/search_space.h"

#include <algorithm>
#include <map>
#include <utility>

#include "schedules/error.h"
#include "sim/placements.h"
#include "tools/layer_costs.h"
#include "tools/model_options.h"
#include "tools/search_schedules.h"
#include "tools/shape_options.h"

namespace unlatch::tools {
namespace {

constexpr int most_ranks = 1 << 16, most_staleness = 1000;

/// Numbers of --microbatches and so on, before a schedule says which of them it can use.
struct Lists {
  std::vector<int> micro_batches, chunks, ranks, replicas, staleness;
};

std::vector<int> list_of(const Arguments& arguments, std::string_view name,
                         std::vector<int> otherwise, int most = most_ranks) {
  std::vector<int> given = arguments.wholes(name, 1, most);
  return given.empty() ? std::move(otherwise) : given;
}

Lists read_lists(const Arguments& arguments) {
  return {.micro_batches = list_of(arguments, "microbatches", {1, 2, 4, 8}),
          .chunks = list_of(arguments, "chunks", {}),
          .ranks = list_of(arguments, "ranks", {}),
          .replicas = list_of(arguments, "replicas", {1}),
          .staleness = list_of(arguments, "staleness", {1, 2}, most_staleness)};
}

/// The numbers of stages a rank that a schedule can use, or one that it cannot, to say so.
std::vector<int> chunks_for(const ScheduleSpec& spec, const std::vector<int>& asked) {
  const Chunks& can = spec.pipeline().chunks;
  if (asked.empty()) return {can.usual};
  std::vector<int> fitting;
  for (const int chunks : asked) {
    if (chunks >= can.least && chunks <= can.most) fitting.push_back(chunks);
  }
  return fitting.empty() ? std::vector<int>{asked.front()} : fitting;
}

/// Of the devices that have places, in bytes, where all have the same.
std::optional<std::int64_t> common_memory(const sim::Cluster& cluster) {
  const std::int64_t first = cluster.type_of(cluster.placement().front()).memory;
  const bool is_common = std::ranges::all_of(
      cluster.placement(), [&](int device) { return cluster.type_of(device).memory == first; });
  return is_common ? std::optional(first) : std::nullopt;
}

std::vector<std::int64_t> memory_of(const sim::Cluster& cluster, const std::vector<int>& devices) {
  std::vector<std::int64_t> memory;
  for (const int device : devices) memory.push_back(cluster.type_of(device).memory);
  return memory;
}

/// Makes the candidates of one command.
class Enumerator {
 public:
  Enumerator(SearchSpace& space, Lists lists) : space_(space), lists_(std::move(lists)) {}

  void add(const ScheduleSpec& spec) {
    for (const int replicas : lists_.replicas) {
      for (const int ranks : ranks_for(replicas)) {
        for (const int chunks : chunks_for(spec, lists_.chunks)) {
          const int stages = std::max(ranks, 1) * chunks;
          for (const ScheduleSpec& stale : with_staleness(spec, stages, lists_.staleness)) {
            add(stale, replicas, ranks, chunks);
          }
        }
      }
    }
  }

 private:
  /// As asked, or all places of the cluster; 0 where these do not divide.
  std::vector<int> ranks_for(int replicas) const {
    if (!lists_.ranks.empty()) return lists_.ranks;
    if (!space_.layers->cluster) return {usual_stages};
    const auto places = static_cast<int>(space_.layers->cluster->cluster.placement().size());
    return {places % replicas == 0 ? places / replicas : 0};
  }

  void add(const ScheduleSpec& spec, int replicas, int ranks, int chunks) {
    std::vector<int> micro_batches = lists_.micro_batches;
    if (!spec.pipeline().uses_micro_batches) micro_batches = {1};
    for (const int count : micro_batches) {
      Shape shape{.stages = std::max(ranks, 1) * chunks,
                  .chunks = chunks,
                  .micro_batches = count,
                  .batches = spec.method().synchronous ? 1 : 64,
                  .replicas = replicas};
      space_.candidates.push_back({.spec = spec, .shape = shape, .placings = {}});
      sim::Candidate& candidate = space_.candidates.back();
      if (ranks == 0) {
        candidate.impossible =
            fmt::format("{} replicas do not divide the {} devices; give --ranks", replicas,
                        space_.layers->cluster->cluster.placement().size());
        continue;
      }
      try {
        require_buildable(spec.effective(shape), spec);
      } catch (const Error& error) {
        candidate.impossible = error.what();
        continue;
      }
      candidate.placings = placings_for(spec, shape);
      candidate.seating = seating_for(spec, shape);
    }
  }

  std::vector<sim::Placing> placings_for(const ScheduleSpec& spec, const Shape& shape) {
    std::vector<sim::Placing> placings;
    for (const Seats& seats : seats_for(shape.replicas, shape.ranks())) {
      placings.push_back(placing_on(seats, space_.partition, spec, shape));
    }
    return placings;
  }

  /// A placement and the costs that it makes, shared by all candidates of that size.
  struct Seats {
    sim::Placement placement;
    std::shared_ptr<const LayerWorkload> layers;
  };

  static sim::Placing placing_on(const Seats& seats, const std::string& partition,
                                 const ScheduleSpec& spec, const Shape& shape) {
    return {.how = std::string(seats.placement.how),
            .devices = seats.placement.devices,
            .room = seats.layers->cluster
                        ? memory_of(seats.layers->cluster->cluster, seats.placement.devices)
                        : std::vector<std::int64_t>{},
            .costs = [layers = seats.layers, partition, spec, shape](const TaskGraph& tasks) {
              return layer_costs(layers, partition, spec, shape, tasks);
            }};
  }

  static Seats seats_on(const LayerWorkload& all, sim::Placement placement) {
    auto layers = std::make_shared<LayerWorkload>(all);
    layers->cluster->cluster = all.cluster->cluster.with_placement(placement.devices);
    return {std::move(placement), std::move(layers)};
  }

  /// On all devices that have places, where these differ.
  std::optional<sim::Seating> seating_for(const ScheduleSpec& spec, const Shape& shape) {
    if (!space_.layers->cluster) return std::nullopt;
    if (!sites_) sites_ = sim::sites_of(space_.layers->cluster->cluster);
    if (!sites_->differ()) return std::nullopt;
    return sim::Seating{*sites_, [layers = space_.layers, partition = space_.partition, spec,
                                  shape](const sim::Devices& devices) {
                          const Seats seats = seats_on(*layers, {"searched", devices});
                          return placing_on(seats, partition, spec, shape);
                        }};
  }

  const std::vector<Seats>& seats_for(int replicas, int ranks) {
    const auto [entry, is_new] = seats_.try_emplace({replicas, ranks});
    if (!is_new) return entry->second;
    if (!space_.layers->cluster) {
      entry->second.push_back({{"in order", {}}, space_.layers});
      return entry->second;
    }
    const sim::Cluster& cluster = space_.layers->cluster->cluster;
    for (sim::Placement& placement : sim::placements(cluster, replicas, ranks)) {
      entry->second.push_back(seats_on(*space_.layers, std::move(placement)));
    }
    return entry->second;
  }

  SearchSpace& space_;
  Lists lists_;
  std::map<std::pair<int, int>, std::vector<Seats>> seats_;
  std::optional<sim::Sites> sites_;  ///< of the cluster
};

}  // namespace

FlagGroup search_flags() {
  return {
      "What to try, lists with commas",
      {{"schedule", "SPEC",
        "NAME, its variants of order and memory tried, or NAME:key=value.. as it is; may be "
        "repeated (all that follow back-propagation's gradients)",
        Flag::Kind::repeated},
       {"microbatches", "M[,M...]", "Micro-batches a batch (1,2,4,8)"},
       {"ranks", "P[,P...]", "Ranks of a pipeline (all places of a cluster; of a profile 4)"},
       {"chunks", "V[,V...]", "Stages a rank, for schedules that can (their usual number)"},
       {"replicas", "R[,R...]", "Data-parallel replicas (1)"},
       {"staleness", "D[,D...]",
        "Updates that a stage is behind the next one, where a schedule has that key (1,2)"},
       {"staleness-limit", "N", "Most forward staleness of a stage, in updates"},
       {"memory-limit", "SIZE", "Most that a rank may keep (of a cluster: its devices' memory)"},
       {"splits", "N",
        "Splits of layers to simulate for a candidate, about; more may prove the best (256)"},
       {"overlap", "W", "How much of R hides beside F, from 0 to 1"}}};
}

SearchSpace read_search_space(const Arguments& arguments) {
  require_layers_from_one(arguments);
  require_one_source(arguments, false);
  require(arguments.has("profile") || arguments.has("cluster"),
          "search needs costs of layers: --cluster FILE|NAME with --model, or --profile FILE");
  require(!arguments.yes("uneven", false),
          "--uneven yes is not available in this version of unlatch; choose a --batch-size that "
          "--microbatches divides");
  SearchSpace space;
  space.layers = std::make_shared<LayerWorkload>(read_layers(arguments));
  space.partition = arguments.text("partition", "auto");
  require_partition_name(space.partition, arguments.place("partition"));
  space.limits.memory = arguments.size("memory-limit");
  if (!space.limits.memory && space.layers->cluster) {
    space.limits.memory = common_memory(space.layers->cluster->cluster);
  }
  if (arguments.has("staleness-limit")) {
    space.limits.staleness = arguments.whole("staleness-limit", 0, 0);
  }
  space.limits.splits = arguments.whole("splits", space.limits.splits);
  const Lists lists = read_lists(arguments);
  Enumerator enumerator(space, lists);
  for (const ScheduleSpec& spec : schedules_to_try(arguments)) enumerator.add(spec);
  return space;
}

}  // namespace unlatch::tools
