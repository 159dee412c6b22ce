// Workload: the flags that say what is simulated (shape, costs, memory, stragglers), read once and
// shared by show, simulate and compare.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/message_checks.h"
#include "schedules/registry.h"
#include "sim/stage_costs.h"
#include "tools/cluster_places.h"
#include "tools/cluster_workload.h"
#include "tools/command.h"
#include "tools/disturbance_options.h"
#include "tools/measured.h"
#include "tools/model_options.h"
#include "traces/memory.h"

namespace unlatch::tools {

/// Names, values and help of the flags, for the commands that take them.
FlagGroup shape_flags();
FlagGroup cost_flags();
FlagGroup memory_flags();
FlagGroup simulated_memory_flags();  ///< and what is on its way
FlagGroup layer_flags();

struct TaskCosts;

/// What --profile or --cluster adds: costs of layers, so that those of tasks depend on the
/// schedule's own pieces and partition.
struct LayerWorkload {
  std::optional<ProfileFile> profile;      ///< measured
  std::optional<ClusterWorkload> cluster;  ///< or computed; one of the two
  int batch_size = 0;
  std::optional<double> overlap;  ///< as asked; else what this machine's cores allow
  int threads = 0;                ///< workers with a core each, on the CPU; 0: as many as cores
  /// Partition for a schedule, from the prices of its stages.
  std::function<std::vector<models::StageRange>(const StagePrices&)> partition;

  /// Of one piece of `size` samples with about `busy` workers at once, the stages of `graph` where
  /// those of `placed` are.
  StagePieces pieces(int size, double busy, const TaskGraph& graph, const TaskGraph& placed) const;
  /// As Workload::costs_for, of layers.
  TaskCosts costs(const TaskGraph& graph, double busy, const TaskGraph& placed) const;
};

/// Costs of one schedule's tasks.
struct TaskCosts {
  sim::StageTimes times;
  MemorySizes sizes;
  std::vector<models::StageRange> partition;  ///< empty for abstract costs
  std::shared_ptr<const sim::Traffic> traffic = nullptr;
  std::optional<Placement> placement = {};
};

struct Workload {
  Shape shape;            ///< as asked; ScheduleSpec::effective() makes a schedule's own
  sim::StageTimes times;  ///< of one micro-batch; abstract costs only
  MemorySizes sizes;      ///< of one micro-batch; abstract costs only
  std::optional<LayerWorkload> layers;
  bool halves_backward = false;  ///< measured were stages, but not I and W of them
  files::Sends sends = files::Sends::buffered;  ///< under which the schedule does not deadlock
  bool one_send_engine = false;                 ///< a rank's sends stand in one queue
  std::optional<files::ActionTable> own_messages;  ///< of a batch, where its file holds them
  bool joint_updates = false;  ///< all stages wait for each other's gradients
  std::optional<std::int64_t> memory_limit;  ///< of every rank; else a cluster's devices have theirs
  sim::Disturbance disturbance;
  int runs = 1;

  /// What is simulated of a schedule.
  Schedule schedule(const ScheduleSpec& spec, const Shape& shape) const;
  /// Costs of a schedule's tasks: M times as much where it runs a batch in one piece, or
  /// measured ones with about `busy` workers at once. `graph` without transfers; its stages sit
  /// where those of `placed` do, which has as many a copy.
  TaskCosts costs_for(const ScheduleSpec& spec, const TaskGraph& graph, double busy) const {
    return costs_for(spec, graph, busy, graph);
  }
  TaskCosts costs_for(const ScheduleSpec& spec, const TaskGraph& graph, double busy,
                      const TaskGraph& placed) const;
  /// The same where there are no layers: only the copies of the model count.
  TaskCosts abstract_costs(const ScheduleSpec& spec, int copies) const;
};

/// --activation-size .. --optimizer-size, one value a stage; empty where not given.
MemorySizes read_memory_sizes(const Arguments& arguments, int stages);

/// Reads and checks all of them, for one of the command's schedules.
Workload read_workload(const Arguments& arguments, const ScheduleSpec& spec, bool synchronous);

/// Throws Error when several runs are asked for that would all be the same.
void require_random_runs(const Workload& workload);

/// Says what predictions from measurements assume: that more workers at once cost the
/// same as those measured, that ranks share worker threads, halves of B where I and W were not measured.
void note_assumptions(const Workload& workload, const ScheduleSpec& spec);

bool all_synchronous(const std::vector<ScheduleSpec>& specs);

/// Throws Error for --profile beside --cluster.
void require_layers_from_one(const Arguments& arguments);
/// Costs come from flags, from a profile of layers or of stages, or from a cluster. Throws Error for
/// flags of two of them.
void require_one_source(const Arguments& arguments, bool of_stages);

/// How much of R hides beside F where nobody says it: all where it has a worker of its own; on a
/// GPU the two share it.
double usual_overlap(const LayerWorkload& layers, const TaskGraph& graph);

/// --profile or --cluster, --batch-size, --partition and --overlap.
LayerWorkload read_layers(const Arguments& arguments);

/// The schedules of --schedule, in the order given. Throws Error when there is none, or more than
/// `most` (0: any number).
std::vector<ScheduleSpec> asked_schedules(const Arguments& arguments, int most);

}  // namespace unlatch::tools
