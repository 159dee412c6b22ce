// Units: reads durations, sizes, rates and numbers as people type them, and writes them back.
//
// Every function throws Error naming the setting, the value and the rule; none depends on the
// locale. A comma separates list entries and is never a decimal sign.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/error.h"
#include "traces/timeline.h"

namespace unlatch::sim {

/// "250us", "1.5ms", "2s", "700ns"; a bare number is milliseconds. To the nearest nanosecond.
nanoseconds parse_duration(std::string_view setting, std::string_view text);
/// "1.5GiB", "512MiB", "2GB"; a bare number is bytes.
std::int64_t parse_size(std::string_view setting, std::string_view text);
/// Bytes a second from "100Gbit/s", "100Gb/s", "12.5GB/s", "25 GiB/s"; a unit is a must.
double parse_rate(std::string_view setting, std::string_view text);
/// yes/no, on/off, true/false, 1/0.
bool parse_switch(std::string_view setting, std::string_view text);
/// A finite number in [least, most].
double parse_number(std::string_view setting, std::string_view text, double least, double most);
/// A finite number in (0, most].
double parse_positive(std::string_view setting, std::string_view text, double most);
/// A whole number in [least, most].
std::int64_t parse_whole(std::string_view setting, std::string_view text, std::int64_t least,
                         std::int64_t most);

/// The entries between commas, blanks around them removed.
std::vector<std::string_view> split_list(std::string_view text);
/// Throws Error unless the list has one entry (for all) or `wanted` (one each). `noun` says of
/// what: "stage", "boundary".
void require_length(std::string_view setting, std::string_view text, std::size_t given, int wanted,
                    std::string_view noun);

/// One value for all or a list of `wanted` values, each read by parse(setting, entry).
template <class Parse>
auto parse_list(std::string_view setting, std::string_view text, int wanted, std::string_view noun,
                const Parse& parse) {
  using Value = decltype(parse(setting, text));
  const std::vector<std::string_view> entries = split_list(text);
  require_length(setting, text, entries.size(), wanted, noun);
  if (entries.size() == 1) return std::vector<Value>(wanted, parse(setting, entries.front()));
  std::vector<Value> values;
  for (const std::string_view entry : entries) values.push_back(parse(setting, entry));
  return values;
}

/// "1.5 ms": the exact decimal.
std::string format_duration(nanoseconds t);
/// "6 GiB", "512 MiB", "700 B".
std::string format_size(std::int64_t bytes);
/// "12.5 GB/s (12500000000 bytes a second)".
std::string format_rate(double bytes_a_second);

}  // namespace unlatch::sim
