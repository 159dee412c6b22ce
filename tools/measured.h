// Measured costs: a profile's layers as the times and sizes of a schedule's stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/partition.h"
#include "sim/stage_costs.h"
#include "tools/profile_file.h"
#include "traces/memory.h"

namespace unlatch::tools {

/// Costs of one piece (micro-batch) of every layer, between the sizes and the numbers of busy
/// workers that were measured. Times in ns, sizes in bytes.
struct PieceCosts {
  std::vector<double> forward, forward_only, backward, input_gradient, weight_gradient, update;
  std::vector<double> output_bytes, tape_bytes, weight_grad_activation_bytes, parameter_bytes;
  std::vector<exec::HandoverCost> handover;  ///< what a cut beside a layer costs it
  double input = 0, target = 0, loss = 0, overhead = 0, input_bytes = 0;
  int optimizer_slots = 0;  ///< numbers that the optimizer keeps for each parameter

  int layers() const { return static_cast<int>(forward.size()); }
};

/// Of a model cut into so many stages: on more than one, the last keeps a copy of what is tied to
/// the first. Linear between neighbouring sizes and worker counts; `busy` workers beyond those
/// measured cost what the most measured do. Throws Error for a size outside the measured ones.
PieceCosts piece_costs(const ProfileFile& file, int size, double busy, int stages);

/// Stages that rebuild their tape, by the flags of the graph.
std::vector<bool> replaying_stages(const TaskGraph& graph);

/// `overlap`: how much of R hides beside F on this machine.
sim::StageTimes stage_times_of(const PieceCosts& piece,
                               const std::vector<models::StageRange>& ranges,
                               const std::vector<bool>& replays, double overlap);
/// Throws Error for more than sizes may be.
std::int64_t whole_bytes(double bytes);
MemorySizes memory_sizes_of(const PieceCosts& piece, const std::vector<models::StageRange>& ranges);

}  // namespace unlatch::tools
