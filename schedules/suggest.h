// suggest: the known names closest to a misspelt one, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unlatch {

/// " Did you mean 'a' or 'b'?" with up to three close names, or "" when none is close.
std::string suggest(std::string_view given, const std::vector<std::string_view>& known);

}  // namespace unlatch
