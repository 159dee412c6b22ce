// MemoryCheck: the ranks of a schedule file that need more memory than a limit, at unit costs.
#pragma once

#include <cstdint>
#include <vector>

#include "files/schedule_file.h"
#include "schedules/violation.h"
#include "tools/simulation.h"

namespace unlatch::tools {

/// A rank over the limit, and where the task that breaks it stands in the file.
struct MemoryFault {
  Excess excess;
  int column = -1;  ///< in the row of the rank; -1: the weights alone break the limit

  Violation violation() const;
};

/// One for every rank over the limit. The file must be valid; it runs in its own order and at the
/// unit costs at which 'show' draws it. `sizes` are those of one copy of the model.
std::vector<MemoryFault> memory_faults(const files::ScheduleFile& file, const MemorySizes& sizes,
                                       std::int64_t limit);

}  // namespace unlatch::tools
