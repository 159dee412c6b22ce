// Text: numbers as tables show them.
#pragma once

#include <optional>
#include <string>

#include "traces/timeline.h"

namespace unlatch::tools {

/// Milliseconds with three decimals (six below one), no trailing zeros: "2.5", "198".
std::string format_ms(nanoseconds t);
/// Milliseconds of an average, at most three decimals; "undefined" without a value.
std::string format_ms(std::optional<double> milliseconds);
/// At most `decimals` decimals and no trailing zeros: "3", "1.85"; "undefined" without a value.
std::string format_number(std::optional<double> value, int decimals = 3);
/// "2.02%"; "undefined" for a ratio without a value.
std::string format_percent(std::optional<double> ratio);

/// "3 micro-batches a batch, 1 batch", of a shape of one replica.
std::string describe_batches(const Shape& shape);
/// "2 stages on 4 ranks (2 replicas), 3 micro-batches a batch, 1 batch", as for one replica.
std::string describe(const Shape& effective);

}  // namespace unlatch::tools
