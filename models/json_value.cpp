#include "models/json_value.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "models/counting_iterator.h"
#include "schedules/error.h"
#include "schedules/suggest.h"

namespace unlatch::models {
namespace {

using Json = nlohmann::json;

/// JSON keeps the last of two members with one key; here both would be meant.
class KeysOnce {
 public:
  KeysOnce(const std::string& place, const int& line) : place_(place), line_(line) {}
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    require(depth <= most_depth, "{}: it is nested more than {} deep", place_, most_depth);
    const bool starts = event == Event::object_start || event == Event::array_start;
    if (starts || event == Event::value) count_entry();
    if (starts) open_.emplace_back(event == Event::array_start);
    if (event == Event::object_end || event == Event::array_end) open_.pop_back();
    if (event == Event::key) take_key(value.get<std::string>());
    return true;
  }

 private:
  /// An object or a list that the parser is in.
  struct Open {
    explicit Open(bool list) : is_list(list) {}
    bool is_list;
    int entries = 0;                   ///< of a list, until now
    std::map<std::string, int> lines;  ///< by key, of an object
    std::string key;                   ///< the last one
  };

  void count_entry() {
    if (!open_.empty() && open_.back().is_list) ++open_.back().entries;
  }

  void take_key(const std::string& key) {
    const auto [first, added] = open_.back().lines.try_emplace(key, line_);
    require(added, "{}, line {}: key '{}' is given twice in {}, first in line {}", place_, line_,
            key, object(), first->second);
    open_.back().key = key;
  }

  /// "node.links[1]", where the parser is.
  std::string object() const {
    std::string path;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      const Open& open = open_[i];
      if (open.is_list) path += fmt::format("[{}]", open.entries - 1);
      if (!open.is_list) path += fmt::format("{}{}", path.empty() ? "" : ".", open.key);
    }
    return path.empty() ? "the outermost object" : path;
  }

  static constexpr int most_depth = 20;
  const std::string& place_;
  const int& line_;
  std::vector<Open> open_;
};

}  // namespace

JsonValue::JsonValue(const Json& json, std::string place)
    : json_(&json), place_(std::move(place)) {}

bool JsonValue::is_list() const { return json_->is_array(); }
bool JsonValue::is_number() const { return json_->is_number(); }
bool JsonValue::is_empty_list() const { return is_list() && json_->empty(); }
bool JsonValue::has(const char* key) const { return json_->contains(key); }

void JsonValue::require_object(const std::vector<std::string_view>& keys) const {
  const bool is_long = json_->is_array() && json_->size() > 1;
  require(json_->is_object(), "{}: {} is no object", place_, is_long ? "a list" : json_->dump());
  for (const auto& [key, value] : json_->items()) {
    require(std::ranges::find(keys, key) != keys.end(), "{}: unknown key '{}'; the keys are {}.{}",
            place_, key, fmt::join(keys, ", "), suggest(key, keys));
  }
}

JsonValue JsonValue::at(const char* key) const {
  require(json_->is_object() && json_->contains(key), "{}: there is no '{}'", place_, key);
  return {json_->at(key), inner(key)};
}

std::vector<JsonValue> JsonValue::list() const {
  require(json_->is_array() && !json_->empty(), "{}: must be a list that is not empty", place_);
  std::vector<JsonValue> values;
  for (std::size_t i = 0; i < json_->size(); ++i) {
    values.push_back({(*json_)[i], fmt::format("{}[{}]", place_, i)});
  }
  return values;
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::members() const {
  require(json_->is_object() && !json_->empty(), "{}: must be an object that is not empty", place_);
  std::vector<std::pair<std::string, JsonValue>> members;
  for (const auto& [key, value] : json_->items()) {
    members.emplace_back(key, JsonValue(value, inner(key)));
  }
  return members;
}

std::string JsonValue::text() const {
  require(json_->is_string() && !json_->get_ref<const std::string&>().empty(),
          "{}: {} must be a text", place_, json_->dump());
  auto text = json_->get<std::string>();
  const bool one_line = std::ranges::none_of(text, [](unsigned char c) { return c < ' '; });
  require(one_line, "{}: {} holds control characters", place_, json_->dump());
  return text;
}

std::string JsonValue::word(const std::vector<std::string_view>& words) const {
  std::string given = text();
  require(std::ranges::find(words, given) != words.end(), "{}: '{}' must be {}.{}", place_, given,
          fmt::join(words, " or "), suggest(given, words));
  return given;
}

bool JsonValue::yes() const {
  require(json_->is_boolean(), "{}: {} must be true or false", place_, json_->dump());
  return json_->get<bool>();
}

double JsonValue::number(double least, double most) const {
  const double value = json_->is_number() ? json_->get<double>() : NAN;
  require(value >= least && value <= most, "{}: {} must be a number in {}..{}", place_,
          json_->dump(), least, most);
  return value;
}

int JsonValue::whole(int least, int most) const {
  return static_cast<int>(long_whole(least, most));
}

std::int64_t JsonValue::long_whole(std::int64_t least, std::int64_t most) const {
  const bool whole = json_->is_number_integer() ||
                     (json_->is_number_float() && std::trunc(json_->get<double>()) == *json_);
  const bool fits = whole && *json_ >= least && *json_ <= most;
  require(fits, "{}: {} must be a whole number in {}..{}", place_, json_->dump(), least, most);
  return json_->get<std::int64_t>();
}

std::string JsonValue::inner(std::string_view key) const {
  const bool whole_file = place_.find(", ") == std::string::npos;
  return fmt::format("{}{}{}", place_, whole_file ? ", " : ".", key);
}

Json parse_json(const std::string& text, const std::string& place) {
  try {
    int line = 1;
    const CountingIterator first(text.data(), &line);
    const CountingIterator last(text.data() + text.size(), &line);
    return Json::parse(first, last, KeysOnce(place, line));
  } catch (const Json::parse_error& error) {
    const auto upto = static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    const auto line = 1 + std::count(text.begin(), text.begin() + upto, '\n');
    fail("{}, line {}: this is not JSON", place, line);
  } catch (const Json::out_of_range&) {
    fail("{}: a number in it is too large", place);
  }
}

}  // namespace unlatch::models
