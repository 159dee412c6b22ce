// Text of numbers and strings that is the same bytes every time and in every locale.
#pragma once

#include <string>
#include <string_view>

#include "traces/timeline.h"

namespace unlatch {

/// Milliseconds as the exact decimal of integer nanoseconds, without trailing zeros: "1.5", "0".
std::string ms_text(nanoseconds t);

/// Microseconds with exactly three decimals, hence exact: "250.000".
std::string us_text(nanoseconds t);

/// The same without trailing zeros, for messages: "20", "0.25".
std::string us_number(nanoseconds t);

/// A JSON string with its quotes. Control characters, quotes and backslashes are escaped; each
/// invalid UTF-8 sequence becomes U+FFFD.
std::string json_string(std::string_view text);

}  // namespace unlatch
