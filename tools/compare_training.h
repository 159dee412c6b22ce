// compare --train: schedules by the time that each takes to learn.
#pragma once

#include "tools/command.h"

namespace unlatch::tools {

std::vector<Flag> training_comparison_flags();

/// Trains with every schedule and ranks them by the time to an accuracy. Returns the exit code.
int compare_training(const Arguments& arguments);

}  // namespace unlatch::tools
