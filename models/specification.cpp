// Parsing of NAME[:argument][,key=value...].
#include "models/specification.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "schedules/error.h"
#include "schedules/suggest.h"

namespace unlatch::models {

namespace {

template <class Number>
bool parse_all(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

bool parse_whole(std::string_view text, int& value) { return parse_all(text, value); }

bool parse_number(std::string_view text, double& value) {
  return parse_all(text, value) && std::isfinite(value);
}

Specification::Specification(std::string_view what, std::string_view text)
    : what_(what), text_(text), name_(text.substr(0, text.find(':'))) {
  require(!name_.empty(), "{} '{}': the name is missing", what_, text_);
  if (name_.size() == text.size()) return;
  for (std::string_view item : split(text.substr(name_.size() + 1), ',')) {
    const std::size_t equals = item.find('=');
    require(!item.empty() && equals != 0,
            "{} '{}': an item between commas is empty; write {}:key=value,key=value", what_, text_,
            name_);
    if (equals == std::string_view::npos) {
      require(argument_.empty(), "{} '{}': '{}' is not of the form key=value", what_, text_, item);
      argument_ = item;
      continue;
    }
    std::string key(item.substr(0, equals));
    require(!has(key), "{} '{}': {} is given twice", what_, text_, key);
    values_.emplace_back(std::move(key), item.substr(equals + 1));
  }
}

const std::string* Specification::find(std::string_view key) const {
  const auto found = std::find_if(values_.begin(), values_.end(),
                                  [&](const auto& value) { return value.first == key; });
  return found == values_.end() ? nullptr : &found->second;
}

void Specification::allow_names(const std::vector<std::string_view>& names) const {
  if (std::find(names.begin(), names.end(), name_) != names.end()) return;
  fail("unknown {} '{}'.{} Known: {}", what_, name_, suggest(name_, names), fmt::join(names, ", "));
}

void Specification::allow_keys(const std::vector<std::string_view>& keys) const {
  for (const auto& [key, value] : values_) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    require(!keys.empty(), "{} '{}': {} has no keys, but '{}' was given", what_, text_, name_, key);
    fail("{} '{}': unknown key '{}'.{} Known: {}", what_, text_, key, suggest(key, keys),
         fmt::join(keys, ", "));
  }
}

void Specification::refuse_argument() const {
  require(argument_.empty(), "{} '{}': '{}' is not of the form key=value", what_, text_, argument_);
}

std::string Specification::word(std::string_view key,
                                const std::vector<std::string_view>& words) const {
  const std::string* given = find(key);
  if (!given) return std::string(words.front());
  require(std::find(words.begin(), words.end(), *given) != words.end(),
          "{} '{}': {} must be one of {}, not '{}'.{}", what_, text_, key, fmt::join(words, ", "),
          *given, suggest(*given, words));
  return *given;
}

double Specification::number(std::string_view key, double otherwise, double least,
                             double most) const {
  const std::string* given = find(key);
  if (!given) return otherwise;
  double value = 0;
  require(parse_number(*given, value) && value >= least && value <= most,
          "{} '{}': {} must be a number from {} to {}, not '{}'", what_, text_, key, least, most,
          *given);
  return value;
}

int Specification::whole(std::string_view key, int otherwise, int least, int most) const {
  const std::string* given = find(key);
  if (!given) return otherwise;
  int value = 0;
  require(parse_whole(*given, value) && value >= least && value <= most,
          "{} '{}': {} must be a whole number from {} to {}, not '{}'", what_, text_, key, least,
          most, *given);
  return value;
}

std::vector<int> Specification::list(std::string_view key, std::vector<int> otherwise, int least,
                                     int most) const {
  const std::string* given = find(key);
  if (!given) return otherwise;
  std::vector<int> values;
  for (std::string_view part : split(*given, '/')) {
    int value = 0;
    require(parse_whole(part, value) && value >= least && value <= most,
            "{} '{}': {} must be whole numbers from {} to {} with slashes between them, not '{}'",
            what_, text_, key, least, most, *given);
    values.push_back(value);
  }
  return values;
}

}  // namespace unlatch::models
