// BP's costs: whether they are known where micro-batches were measured.
#pragma once

#include "tools/workload.h"

namespace unlatch::tools {

/// BP runs a batch in one piece; a profile may hold the costs of smaller ones alone.
bool knows_bp(const LayerWorkload& layers);
/// Says why there is no speed-up over BP, where there is none.
void note_unknown_bp(const Workload& workload);

}  // namespace unlatch::tools
