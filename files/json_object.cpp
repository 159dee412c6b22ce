#include "files/json_object.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "schedules/error.h"
#include "schedules/suggest.h"

namespace unlatch::files {

using Json = nlohmann::json;

JsonObject::JsonObject(const Json& json, std::string name,
                       const std::vector<std::string_view>& known)
    : json_(json), name_(std::move(name)) {
  require(json.is_object(), "{} must be an object", name_);
  for (const auto& [key, value] : json.items()) {
    constexpr std::size_t longest = 60;
    require(std::ranges::find(known, key) != known.end(), "{} has no key '{}'.{} Its keys: {}",
            name_, key.substr(0, longest), suggest(key.substr(0, longest), known),
            fmt::join(known, ", "));
  }
}

bool JsonObject::has(const char* key) const { return json_.contains(key); }

const Json& JsonObject::at(const char* key) const {
  require(json_.contains(key), "{} lacks the key '{}'", name_, key);
  return json_[key];
}

int JsonObject::whole(const char* key, int least, int most) const {
  return whole_value(at(key), fmt::format("{} of {}", key, name_), least, most);
}

int JsonObject::whole(const char* key, int least, int most, int otherwise) const {
  return has(key) ? whole(key, least, most) : otherwise;
}

bool JsonObject::yes(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  require(json_[key].is_boolean(), "{} of {} must be true or false", key, name_);
  return json_[key].get<bool>();
}

double JsonObject::real(const char* key, double otherwise) const {
  if (!has(key)) return otherwise;
  require(json_[key].is_number() && std::isfinite(json_[key].get<double>()),
          "{} of {} must be a number", key, name_);
  return json_[key].get<double>();
}

std::string JsonObject::text(const char* key) const {
  require(at(key).is_string(), "{} of {} must be a string", key, name_);
  return json_[key].get<std::string>();
}

const Json& JsonObject::list(const char* key, int size, std::string_view one_a) const {
  const Json& value = at(key);
  require(value.is_array(), "{} of {} must be a list", key, name_);
  require(value.size() == static_cast<std::size_t>(size),
          "{} of {} lists {}, one a {} is needed: {}", key, name_, value.size(), one_a, size);
  return value;
}

int whole_value(const Json& value, std::string_view name, int least, int most) {
  require(value.is_number_integer(), "{} must be a whole number", name);
  const bool too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  const std::int64_t number = too_large ? most : value.get<std::int64_t>();
  require(!too_large && number >= least && number <= most, "{} is {}; it must be between {} and {}",
          name, value.dump(), least, most);
  return static_cast<int>(number);
}

}  // namespace unlatch::files
