// What the fuzzers feed: each target reads one input, and aborts when a promise is broken.
#pragma once

#include <string_view>

namespace unlatch::fuzz {

/// Reads a CSV schedule, checks it under all sends, and, if it is valid, runs and rewrites it.
void pipeline_csv(std::string_view text);
/// The same for the native JSON form.
void native_json(std::string_view text);

}  // namespace unlatch::fuzz
