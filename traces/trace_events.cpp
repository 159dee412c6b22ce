#include "traces/trace_events.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "schedules/error.h"

namespace unlatch {

using nlohmann::json;

bool TraceEvent::empty() const { return value_.empty(); }

std::string TraceEvent::text(const char* key) const {
  const json& field = at(key);
  if (!field.is_string()) refuse(key, "text");
  return field.get<std::string>();
}

std::string TraceEvent::text_or_none(const char* key) const {
  const auto field = value_.find(key);
  return field != value_.end() && field->is_string() ? field->get<std::string>() : std::string();
}

std::int64_t TraceEvent::whole(const char* key) const {
  const json& field = at(key);
  if (!field.is_number_integer()) refuse(key, "a whole number");
  return field.get<std::int64_t>();
}

std::int64_t TraceEvent::whole(const char* key, std::int64_t otherwise) const {
  return value_.contains(key) ? whole(key) : otherwise;
}

nanoseconds TraceEvent::microseconds(const char* key) const {
  const json& field = at(key);
  // Keeps the nanoseconds from the earliest start to the latest end (start + dur) in 64 bits.
  constexpr double longest_us = 3e15;
  const double value = field.is_number() ? field.get<double>() : longest_us * 2;
  if (!(std::abs(value) <= longest_us)) refuse(key, "a number of microseconds");
  if (field.is_number_integer()) return nanoseconds(field.get<std::int64_t>() * 1000);
  // Whole and fractional parts apart: a base of years must not swallow nanoseconds.
  const double whole = std::floor(value);
  return nanoseconds(std::llround(whole) * 1000 + std::llround((value - whole) * 1000));
}

nanoseconds TraceEvent::length(const char* key) const {
  const nanoseconds length = microseconds(key);
  if (length < nanoseconds(0)) refuse(key, "0 or more");
  return length;
}

int TraceEvent::argument(const char* key) const {
  const auto args = value_.find("args");
  if (args == value_.end() || !args->is_object() || !args->contains(key)) return -1;
  const json& field = (*args)[key];
  if (!field.is_number_integer()) return -1;
  const auto number = field.get<std::int64_t>();
  if (number > std::numeric_limits<int>::max()) refuse(key, "a number that fits 32 bits");
  return number < 0 ? -1 : static_cast<int>(number);
}

std::string TraceEvent::argument_text(const char* key) const {
  const json& args = at("args");
  const bool found = args.is_object() && args.contains(key) && args[key].is_string();
  if (!found) refuse("args", fmt::format("an object with a text '{}'", key));
  return args[key].get<std::string>();
}

void TraceEvent::refuse(std::string_view key, std::string_view wanted) const {
  fail("{}: event {} ({}): '{}' is not {}", source_, index_, excerpt(), key, wanted);
}

const json& TraceEvent::at(const char* key) const {
  const auto found = value_.find(key);
  require(found != value_.end(), "{}: event {} ({}) has no '{}'", source_, index_, excerpt(), key);
  return *found;
}

std::string TraceEvent::excerpt() const {
  constexpr std::size_t longest = 60;
  std::string text = value_.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > longest) text = fmt::format("{}..", text.substr(0, longest));
  return text;
}

namespace {

/// Hands each event on as soon as its closing brace is read, and then forgets it.
class EventFilter {
 public:
  EventFilter(const TraceReaders& readers, std::string_view source)
      : readers_(readers), source_(source) {}

  bool operator()(int depth, json::parse_event_t what, json& value) {
    using Type = json::parse_event_t;
    require(depth <= most_depth, "{}: it is nested more than {} deep", source_, most_depth);
    if (depth == 0 && what == Type::array_start) in_events_ = bare_array_ = true;
    if (depth == 1 && what == Type::key && !bare_array_) {
      key_ = value.get<std::string>();
      in_events_ = key_ == "traceEvents";
    }
    if (depth == 1 && what == Type::array_start && in_events_) found_ = true;
    if (depth == 1 && what == Type::object_end && !bare_array_) readers_.member(key_, value);
    if (!in_events_ || depth != (bare_array_ ? 1 : 2)) return true;
    if (what == Type::object_end) {
      const TraceEvent event(value, source_, index_++);
      if (!event.empty()) readers_.event(event);
      return false;
    }
    require(what != Type::array_end && what != Type::value,
            "{}: the events must be objects, but one is {}", source_, value.dump());
    return true;
  }

  bool found_events() const { return found_ || bare_array_; }

 private:
  static constexpr int most_depth = 100;  // values are printed by recursion
  const TraceReaders& readers_;
  std::string_view source_;
  std::string key_;
  std::int64_t index_ = 0;
  bool bare_array_ = false;
  bool in_events_ = false;
  bool found_ = false;
};

}  // namespace

void read_trace_events(std::string_view text, std::string_view source,
                       const TraceReaders& readers) {
  EventFilter filter(readers, source);
  try {
    // By reference: the parser would copy the filter.
    const json ignored = json::parse(text, [&](int depth, json::parse_event_t what, json& value) {
      return filter(depth, what, value);
    });
  } catch (const json::parse_error& error) {
    fail("{}: this is not complete JSON: it breaks at byte {} of {}{}", source, error.byte,
         text.size(), error.byte >= text.size() ? ", where the file ends too early" : "");
  } catch (const json::exception&) {
    fail("{}: a number in it is too large", source);
  }
  require(filter.found_events(),
          "{}: this is JSON, but not a Chrome trace: it has no list 'traceEvents'", source);
}

}  // namespace unlatch
