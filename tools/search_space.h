// Search space: the candidates that the flags of `unlatch search` ask for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/search.h"
#include "tools/command.h"
#include "tools/workload.h"

namespace unlatch::tools {

struct SearchSpace {
  std::shared_ptr<const LayerWorkload> layers;
  std::string partition = "auto";
  sim::SearchLimits limits;
  std::vector<sim::Candidate> candidates;
};

/// Flags that say what to try; those of costs are layer_flags().
FlagGroup search_flags();

/// Throws Error where the request itself is wrong; what only some candidates cannot do, these say.
SearchSpace read_search_space(const Arguments& arguments);

}  // namespace unlatch::tools
