// Text of numbers and strings for CSV and JSON files.
#include "traces/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace unlatch {

namespace {

struct Parts {
  std::string_view sign;
  std::uint64_t whole;
  std::uint64_t rest;  ///< below the unit
};

Parts split(nanoseconds t, std::uint64_t unit) {
  const bool negative = t.count() < 0;
  const auto bits = static_cast<std::uint64_t>(t.count());
  const std::uint64_t size = negative ? 0 - bits : bits;
  return {negative ? "-" : "", size / unit, size % unit};
}

std::string without_zeros(std::string text) {
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string ms_text(nanoseconds t) {
  const Parts parts = split(t, 1'000'000);
  return without_zeros(fmt::format("{}{}.{:06}", parts.sign, parts.whole, parts.rest));
}

std::string us_text(nanoseconds t) {
  const Parts parts = split(t, 1'000);
  return fmt::format("{}{}.{:03}", parts.sign, parts.whole, parts.rest);
}

std::string us_number(nanoseconds t) { return without_zeros(us_text(t)); }

std::string json_string(std::string_view text) {
  using nlohmann::json;
  return json(std::string(text)).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace unlatch
