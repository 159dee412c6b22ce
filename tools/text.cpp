#include "tools/text.h"

#include <fmt/format.h>

#include <cmath>

#include "schedules/replicas.h"
#include "traces/json_text.h"

namespace unlatch::tools {

std::string format_ms(nanoseconds t) {
  return t < std::chrono::milliseconds{1} ? ms_text(t) : format_number(to_ms(t));
}

std::string format_ms(std::optional<double> milliseconds) { return format_number(milliseconds); }

std::string format_number(std::optional<double> value, int decimals) {
  if (!value || !std::isfinite(*value)) return "undefined";
  std::string text = fmt::format("{:.{}f}", *value, decimals);
  if (text.find('.') != std::string::npos) text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string format_percent(std::optional<double> ratio) {
  if (!ratio || !std::isfinite(*ratio)) return "undefined";
  return fmt::format("{:.2f}%", *ratio * 100);
}

std::string describe_batches(const Shape& shape) {
  return fmt::format("{} micro-batch{} a batch, {} batch{}", shape.micro_batches,
                     shape.micro_batches == 1 ? "" : "es", shape.batches,
                     shape.batches == 1 ? "" : "es");
}

std::string describe(const Shape& effective) {
  const std::string replicas =
      effective.replicas > 1 ? fmt::format(" ({} replicas)", effective.replicas) : "";
  return fmt::format("{} stages on {} ranks{}, {}", effective.stages_a_copy(), effective.ranks(),
                     replicas, describe_batches(one_replica(effective)));
}

}  // namespace unlatch::tools
