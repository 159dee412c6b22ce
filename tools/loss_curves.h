// Loss curves: a picture of how the losses of a training run went down.
#pragma once

#include <string>

#include "tools/finished_run.h"

namespace unlatch::tools {

/// Loss over steps as SVG: of the training batches, long runs as means of some in a row, and of the
/// test data where it was evaluated. Throws Error when the file cannot be written.
void write_loss_curves(const std::string& path, const FinishedRun& run);

}  // namespace unlatch::tools
