// Scenario: a JSON file with the flags of a command as its keys.
#pragma once

#include <string>

#include "tools/command.h"

namespace unlatch::tools {

/// Adds the keys of the file that no flag has set. Throws Error that names every unknown, double
/// or ill-typed key at once, each with its line and the closest valid key.
void add_scenario(const Command& command, const std::string& path, Arguments& arguments);

}  // namespace unlatch::tools
