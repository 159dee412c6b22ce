// What each rank of a training run kept, beside what was predicted.
#pragma once

#include <vector>

#include "exec/kept_memory.h"
#include "exec/stream_memory.h"
#include "tools/json_output.h"
#include "tools/table.h"
#include "traces/memory.h"

namespace unlatch::tools {

struct MeasuredMemory {
  MemorySizes sizes;                            ///< by stage
  std::vector<exec::KeptMemory::Account> kept;  ///< by rank
  std::vector<exec::StreamMemory::Use> pools;   ///< of a device; empty on the CPU
};

/// What the ranks keep by the timeline of the run, with the sizes that a model's layers say and
/// with those that the tensors had. The second is what the executor should have kept.
struct PredictedMemory {
  std::vector<RankMemory> by_layers;
  std::vector<RankMemory> by_tensors;
};

/// "memory_detail".
Json memory_json(const MeasuredMemory& measured, const PredictedMemory& predicted);
Table memory_table(const MeasuredMemory& measured, const PredictedMemory& predicted);

}  // namespace unlatch::tools
