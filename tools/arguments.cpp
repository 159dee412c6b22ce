#include "tools/arguments.h"

#include <algorithm>

#include "schedules/error.h"
#include "schedules/suggest.h"
#include "sim/units.h"

namespace unlatch::tools {

void Arguments::add(const std::string& name, Setting setting) {
  settings_.try_emplace(name, std::move(setting));
}

std::optional<std::string> Arguments::text(std::string_view name) const {
  const auto found = settings_.find(name);
  if (found == settings_.end() || found->second.values.empty()) return std::nullopt;
  return found->second.values.front();
}

std::string Arguments::text(std::string_view name, std::string_view otherwise) const {
  return text(name).value_or(std::string(otherwise));
}

std::vector<std::string> Arguments::all(std::string_view name) const {
  const auto found = settings_.find(name);
  return found == settings_.end() ? std::vector<std::string>{} : found->second.values;
}

std::vector<std::string> Arguments::names() const {
  std::vector<std::string> names;
  for (const auto& [name, setting] : settings_) names.push_back(name);
  return names;
}

std::string Arguments::place(std::string_view name) const {
  const auto found = settings_.find(name);
  return found == settings_.end() ? fmt::format("--{}", name) : found->second.place;
}

void Arguments::refuse(std::string_view name, std::string_view value, std::string_view rule) const {
  fail("{} '{}': {}", place(name), value, rule);
}

int Arguments::whole(std::string_view name, int otherwise, int least, int most) const {
  const auto given = text(name);
  return given ? static_cast<int>(sim::parse_whole(place(name), *given, least, most)) : otherwise;
}

std::uint64_t Arguments::seed() const {
  const auto given = text("seed");
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  return given ? static_cast<std::uint64_t>(sim::parse_whole(place("seed"), *given, 0, most)) : 0;
}

double Arguments::real(std::string_view name, double otherwise, double least, double most) const {
  const auto given = text(name);
  return given ? sim::parse_number(place(name), *given, least, most) : otherwise;
}

bool Arguments::yes(std::string_view name, bool otherwise) const {
  const auto given = text(name);
  return given ? sim::parse_switch(place(name), *given) : otherwise;
}

std::string Arguments::choice(std::string_view name,
                              const std::vector<std::string_view>& words) const {
  const auto given = text(name);
  if (!given) return std::string(words.front());
  if (std::ranges::find(words, *given) != words.end()) return *given;
  refuse(name, *given,
         fmt::format("must be one of {}.{}", fmt::join(words, ", "), suggest(*given, words)));
}

std::optional<std::int64_t> Arguments::size(std::string_view name) const {
  const auto given = text(name);
  if (!given) return std::nullopt;
  return sim::parse_size(place(name), *given);
}

std::vector<std::int64_t> Arguments::sizes(std::string_view name, int count) const {
  const auto given = text(name);
  if (!given) return {};
  return sim::parse_list(place(name), *given, count, "stage", sim::parse_size);
}

std::vector<int> Arguments::wholes(std::string_view name, int least, int most) const {
  std::vector<int> result;
  const auto given = text(name);
  if (!given) return result;
  for (const std::string_view entry : sim::split_list(*given)) {
    const auto value = static_cast<int>(sim::parse_whole(place(name), entry, least, most));
    if (std::ranges::find(result, value) != result.end()) {
      refuse(name, *given, fmt::format("names {} twice", value));
    }
    result.push_back(value);
  }
  return result;
}

std::vector<double> Arguments::reals(std::string_view name) const {
  std::vector<double> result;
  const auto given = text(name);
  if (!given) return result;
  constexpr double most = std::numeric_limits<double>::max();
  for (std::string_view entry : sim::split_list(*given)) {
    result.push_back(sim::parse_number(place(name), entry, -most, most));
  }
  return result;
}

}  // namespace unlatch::tools
