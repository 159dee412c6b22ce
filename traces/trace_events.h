// trace_events: the events of a Chrome trace one at a time, so that a large file is never held as a
// JSON tree.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "traces/timeline.h"

namespace unlatch {

/// A view of one event, with what messages about it need. Every reader throws Error with the index
/// of the event for a field that is missing or of another kind.
class TraceEvent {
 public:
  TraceEvent(const nlohmann::json& value, std::string_view source, std::int64_t index)
      : value_(value), source_(source), index_(index) {}

  /// {}: how some writers end a list with a comma.
  bool empty() const;
  std::string phase() const { return text("ph"); }
  std::string text(const char* key) const;
  /// "" for one that is missing or no text.
  std::string text_or_none(const char* key) const;
  std::int64_t whole(const char* key) const;
  std::int64_t whole(const char* key, std::int64_t otherwise) const;
  nanoseconds microseconds(const char* key) const;
  /// Microseconds from 0 on.
  nanoseconds length(const char* key) const;
  /// A number of args, -1 when it is not there.
  int argument(const char* key) const;
  std::string argument_text(const char* key) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view wanted) const;

 private:
  const nlohmann::json& at(const char* key) const;
  std::string excerpt() const;

  const nlohmann::json& value_;
  std::string_view source_;
  std::int64_t index_;
};

/// `member` gets each object beside the events, such as "metadata", by its key.
struct TraceReaders {
  std::function<void(const TraceEvent&)> event;
  std::function<void(const std::string& key, const nlohmann::json&)> member;
};

/// Reads {"traceEvents": [..]} or a bare array. Throws Error that names `source` and the byte where
/// the JSON breaks, or says that it is no trace.
void read_trace_events(std::string_view text, std::string_view source, const TraceReaders& readers);

}  // namespace unlatch
