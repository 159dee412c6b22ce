// Outputs: the files that a command was asked to write, checked before its work begins.
#pragma once

#include <string_view>
#include <vector>

#include "tools/arguments.h"

namespace unlatch::tools {

/// Of the flags that name files to write: none may be empty or "-", no two may be one file, none
/// may be a file that the command reads, each must be writable. `folders` are not tried. Throws
/// Error.
void require_outputs(const Arguments& arguments, const std::vector<std::string_view>& files,
                     const std::vector<std::string_view>& folders = {});

}  // namespace unlatch::tools
