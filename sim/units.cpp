#include "sim/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

namespace unlatch::sim {

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 5> duration_units{
    {{"", 1e6}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};

constexpr std::array<Unit, 10> size_units{{{"", 1},
                                           {"B", 1},
                                           {"kB", 1e3},
                                           {"MB", 1e6},
                                           {"GB", 1e9},
                                           {"TB", 1e12},
                                           {"KiB", 1024.0},
                                           {"MiB", 1048576.0},
                                           {"GiB", 1073741824.0},
                                           {"TiB", 1099511627776.0}}};

constexpr std::array<Unit, 19> rate_units{{{"bit/s", 1 / 8.0},
                                           {"kbit/s", 1e3 / 8},
                                           {"Mbit/s", 1e6 / 8},
                                           {"Gbit/s", 1e9 / 8},
                                           {"Tbit/s", 1e12 / 8},
                                           {"b/s", 1 / 8.0},
                                           {"kb/s", 1e3 / 8},
                                           {"Mb/s", 1e6 / 8},
                                           {"Gb/s", 1e9 / 8},
                                           {"Tb/s", 1e12 / 8},
                                           {"B/s", 1},
                                           {"kB/s", 1e3},
                                           {"MB/s", 1e6},
                                           {"GB/s", 1e9},
                                           {"TB/s", 1e12},
                                           {"KiB/s", 1024.0},
                                           {"MiB/s", 1048576.0},
                                           {"GiB/s", 1073741824.0},
                                           {"TiB/s", 1099511627776.0}}};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string names_of(std::span<const Unit> units) {
  std::string names;
  for (const Unit& unit : units) {
    if (!unit.name.empty()) names += fmt::format("{}{}", names.empty() ? "" : ", ", unit.name);
  }
  return names;
}

/// For values that hold a comma: what the comma means here.
std::string_view comma_hint(std::string_view text) {
  return text.find(',') == std::string_view::npos
             ? ""
             : "; a comma separates list entries, decimals take a dot (1.5)";
}

/// A finite number >= 0 and what follows it, or an Error with the rule.
std::pair<double, std::string_view> number_and_rest(std::string_view setting, std::string_view text,
                                                    std::string_view rule) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && std::isfinite(value) && value >= 0, "{} '{}': must be {}{}",
          setting, text, rule, comma_hint(text));
  return {value, trimmed({rest, static_cast<std::size_t>(text.data() + text.size() - rest)})};
}

/// Number times unit, in the base unit of the table.
double parse_quantity(std::string_view setting, std::string_view given, std::string_view rule,
                      std::span<const Unit> units) {
  const std::string_view text = trimmed(given);
  const auto [value, name] = number_and_rest(setting, text, rule);
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const Unit& known) { return known.name == name; });
  require(unit != units.end(), "{} '{}': {}; the units are {} (upper and lower case differ){}",
          setting, text,
          name.empty() ? std::string("needs a unit") : fmt::format("unknown unit '{}'", name),
          names_of(units), comma_hint(text));
  return value * unit->factor;
}

}  // namespace

nanoseconds parse_duration(std::string_view setting, std::string_view text) {
  const double ns =
      parse_quantity(setting, text, "a finite time >= 0 such as 1.5ms or 250us", duration_units);
  require(ns <= 1e15, "{} '{}': a time is at most 1000000 s", setting, text);
  const nanoseconds whole(std::llround(ns));
  require(ns == 0 || whole.count() > 0, "{} '{}': shorter than a nanosecond, the smallest time",
          setting, text);
  return whole;
}

std::int64_t parse_size(std::string_view setting, std::string_view text) {
  const double bytes =
      parse_quantity(setting, text, "a finite size >= 0 such as 512MiB or 2GB", size_units);
  require(bytes <= 9007199254740992.0, "{} '{}': a size is at most 8 PiB", setting, text);
  return std::llround(bytes);
}

double parse_rate(std::string_view setting, std::string_view text) {
  const double rate =
      parse_quantity(setting, text, "a finite rate > 0 such as 100Gbit/s or 12.5GB/s", rate_units);
  require(rate > 0, "{} '{}': a rate must be greater than 0", setting, text);
  return rate;
}

bool parse_switch(std::string_view setting, std::string_view text) {
  const std::string_view word = trimmed(text);
  for (const std::string_view yes : {"yes", "on", "true", "1"}) {
    if (word == yes) return true;
  }
  for (const std::string_view no : {"no", "off", "false", "0"}) {
    if (word == no) return false;
  }
  fail("{} '{}': must be yes or no (on/off, true/false and 1/0 mean the same)", setting, text);
}

namespace {

/// No number where it is none, or not finite.
double finite_number(std::string_view text) {
  const std::string_view word = trimmed(text);
  double value = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole_text = error == std::errc() && rest == word.data() + word.size();
  return whole_text && std::isfinite(value) ? value : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

double parse_positive(std::string_view setting, std::string_view text, double most) {
  const double value = finite_number(text);
  require(value > 0 && value <= most, "{} '{}': must be greater than 0{}{}", setting, text,
          std::isfinite(most) ? fmt::format(" and at most {}", most) : " and finite",
          comma_hint(text));
  return value;
}

double parse_number(std::string_view setting, std::string_view text, double least, double most) {
  const double value = finite_number(text);
  require(value >= least && value <= most, "{} '{}': must be a finite number {}{}", setting, text,
          std::isfinite(most) ? fmt::format("in {}..{}", least, most) : fmt::format(">= {}", least),
          comma_hint(text));
  return value;
}

std::int64_t parse_whole(std::string_view setting, std::string_view text, std::int64_t least,
                         std::int64_t most) {
  const std::string_view word = trimmed(text);
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole_text = error == std::errc() && rest == word.data() + word.size();
  require(whole_text && value >= least && value <= most,
          "{} '{}': must be a whole number in {}..{}{}", setting, text, least, most,
          comma_hint(text));
  return value;
}

std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> entries;
  while (true) {
    const auto comma = text.find(',');
    entries.push_back(trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) return entries;
    text.remove_prefix(comma + 1);
  }
}

void require_length(std::string_view setting, std::string_view text, std::size_t given, int wanted,
                    std::string_view noun) {
  require(given == 1 || given == static_cast<std::size_t>(wanted),
          "{} '{}': a list of {} values; give one value for all, or {}, one for each {}{}", setting,
          text, given, wanted, noun, comma_hint(text));
}

std::string format_duration(nanoseconds t) { return fmt::format("{} ms", to_ms(t)); }

std::string format_size(std::int64_t bytes) {
  for (const auto& [name, factor] : {Unit{"TiB", 1099511627776.0}, Unit{"GiB", 1073741824.0},
                                     Unit{"MiB", 1048576.0}, Unit{"KiB", 1024.0}}) {
    const double value = static_cast<double>(bytes) / factor;
    if (value >= 1) return fmt::format("{:.6g} {}", value, name);
  }
  return fmt::format("{} B", bytes);
}

std::string format_rate(double bytes_a_second) {
  return fmt::format("{:.6g} GB/s ({:.0f} bytes a second)", bytes_a_second / 1e9, bytes_a_second);
}

}  // namespace unlatch::sim
