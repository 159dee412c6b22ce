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
#include "sim/stragglers.h"
#include "tools/cluster_workload.h"
#include "tools/command.h"
#include "tools/measured.h"
#include "traces/memory.h"

namespace unlatch::tools {

/// Names, values and help of the flags, for the commands that take them.
FlagGroup shape_flags();
FlagGroup cost_flags();
FlagGroup memory_flags();
FlagGroup straggler_flags();
FlagGroup layer_flags();

/// What --profile or --cluster adds: costs of layers, so that those of tasks depend on the
/// schedule's own pieces and partition.
struct LayerWorkload {
  std::optional<ProfileFile> profile;      ///< measured
  std::optional<ClusterWorkload> cluster;  ///< or computed; one of the two
  int batch_size = 0;
  std::optional<double> overlap;  ///< as asked; else what this machine's cores allow
  /// Partition for a schedule, from the costs of its pieces and the stages that pay for R.
  std::function<std::vector<models::StageRange>(const PieceCosts&, const std::vector<bool>&)>
      partition;

  /// Of one piece of `size` samples with about `busy` workers at once.
  PieceCosts piece(int size, double busy) const;
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
  files::Sends sends = files::Sends::buffered;  ///< under which the schedule does not deadlock
  std::optional<std::int64_t> memory_limit;
  std::vector<double> slow;  ///< one factor a rank
  sim::Straggler straggler;
  std::uint64_t seed = 0;
  int runs = 1;

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

/// --stages where neither it nor --ranks is given.
inline constexpr int usual_stages = 4;

/// The shape that flags start from: that of a schedule file, else the usual one with `stages`.
Shape usual_shape(const ScheduleSpec& spec, int stages, int batches = 1);

/// Two of --stages, --ranks and --chunks give the third; with one of them the usual values help.
void read_stages(const Arguments& arguments, int usual_chunks, int otherwise, Shape& shape);

/// Reads --stages .. --drain alone. The schedule decides the usual number of stages a rank;
/// `synchronous`, that of all schedules of the command together, the usual number of batches.
Shape read_shape(const Arguments& arguments, const ScheduleSpec& spec, bool synchronous);

/// --activation-size .. --optimizer-size, one value a stage; empty where not given.
MemorySizes read_memory_sizes(const Arguments& arguments, int stages);

/// Reads and checks all of them, for one of the command's schedules.
Workload read_workload(const Arguments& arguments, const ScheduleSpec& spec, bool synchronous);

/// Says so when there are more ranks than were measured working at once: the predictions then assume
/// a core for each of them.
void note_missing_cores(const Workload& workload, const ScheduleSpec& spec);

bool all_synchronous(const std::vector<ScheduleSpec>& specs);

/// --profile or --cluster, --batch-size, --partition and --overlap.
LayerWorkload read_layers(const Arguments& arguments);

/// Throws Error when the graph would have more tasks than a graph holds or than fit the memory of
/// this machine; says how many and what to lower.
void require_buildable(const Shape& shape, const ScheduleSpec& spec);

/// The schedules of --schedule, in the order given. Throws Error when there is none, or more than
/// `most` (0: any number).
std::vector<ScheduleSpec> asked_schedules(const Arguments& arguments, int most);

}  // namespace unlatch::tools
