// What each rank of a training run kept, beside what was predicted.
#pragma once

#include <vector>

#include "exec/kept_memory.h"
#include "exec/stream_memory.h"
#include "tools/json_output.h"
#include "tools/table.h"
#include "traces/memory.h"

namespace unlatch::tools {

/// By rank.
struct MeasuredMemory {
  std::vector<exec::KeptMemory::Account> kept;
  std::vector<exec::StreamMemory::Use> pools;  ///< of a device; empty on the CPU
};

/// "memory_detail".
Json memory_json(const MeasuredMemory& measured, const std::vector<RankMemory>& predicted);
Table memory_table(const MeasuredMemory& measured, const std::vector<RankMemory>& predicted);

}  // namespace unlatch::tools
