// import_traces: the costs of stages from PyTorch profiles of a torch.distributed.pipelining run.
#pragma once

#include <string>
#include <vector>

#include "tools/stage_profile.h"

namespace unlatch::tools {

/// What was imported, and what is odd about it, one sentence each.
struct ImportedStages {
  StageProfileFile profile;
  int left_out = 0;  ///< samples of warm-up steps
  std::vector<std::string> notes;
};

/// Reads one profile a rank, plain or gzip; a directory stands for all .json and .json.gz files in
/// it. Tasks are the ranges "PP:2F0", "PP:1B3", "PP:0I2", "PP:0W2" that PyTorch marks: on a GPU
/// from the first of its kernels to the end of the last, else on the host, where they hold what
/// they wait for. The first `warm_up` of each range (one a step) are left out. Throws Error with
/// the place of what is wrong, and for stages that are missing.
ImportedStages import_traces(const std::vector<std::string>& paths, int warm_up);

}  // namespace unlatch::tools
