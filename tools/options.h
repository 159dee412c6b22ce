// Options: the words of the command line, read by CLI11 against the flags of one command.
#pragma once

#include <string>
#include <vector>

#include "tools/command.h"

namespace unlatch::tools {

/// What was asked for. Throws Error for unknown flags (all at once, with the closest valid ones),
/// missing values, a single-valued flag given twice, and positional arguments nobody takes.
/// A first positional NAME.json that the command does not take itself is read as a scenario.
Arguments parse_options(const Command& command, std::vector<std::string> words);

/// Usage, flags by group, defaults.
std::string help_text(const Command& command);

}  // namespace unlatch::tools
