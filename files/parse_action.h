// Reading one token of PyTorch's pipelining CSV.
#pragma once

#include <string_view>

#include "files/actions.h"

namespace unlatch::files {

/// Fills stage, type and micro-batch from a whole token without blanks, as in 2F0; BW, the whole
/// backward of an older dialect, becomes B and sets `old_whole`. Returns why the token is no
/// action, or "".
std::string_view parse_action(std::string_view token, Action& action, bool& old_whole);

}  // namespace unlatch::files
