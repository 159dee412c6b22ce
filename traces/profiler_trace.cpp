#include "traces/profiler_trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "schedules/error.h"
#include "traces/trace_events.h"

namespace unlatch {
namespace {

using nlohmann::json;

/// Process and thread, or device and stream.
using Track = std::pair<std::int64_t, std::int64_t>;
using Spans = std::vector<Span>;

struct Seen {
  Spans on_host;
  std::map<Track, Spans> on_device;
};

std::vector<nanoseconds> lengths_of(Spans spans) {
  std::ranges::stable_sort(spans, {}, &Span::start);
  std::vector<nanoseconds> lengths;
  for (const Span& span : spans) lengths.push_back(span.end - span.start);
  return lengths;
}

/// Joins the n-th ranges of all streams that have as many as any. (A stream that takes part in some
/// only, for a first message say, cannot be told which.)
Spans joined(const std::map<Track, Spans>& tracks) {
  Spans all;
  for (const auto& [track, spans] : tracks) {
    if (spans.size() < all.size()) continue;
    Spans sorted = spans;
    std::ranges::stable_sort(sorted, {}, &Span::start);
    if (sorted.size() > all.size()) {
      all = std::move(sorted);
      continue;
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].start = std::min(all[i].start, sorted[i].start);
      all[i].end = std::max(all[i].end, sorted[i].end);
    }
  }
  return all;
}

/// Of "distributedInfo"; -1 for what is not there.
int number_of(const json& info, const char* key, std::string_view source) {
  if (!info.is_object() || !info.contains(key)) return -1;
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const json& value = info[key];
  require(value.is_number_integer() && value >= 0 && value <= most,
          "{}: distributedInfo.{} must be a whole number in 0..{}, not {}", source, key, most,
          value.dump());
  return value.get<int>();
}

class Collector {
 public:
  Collector(std::string_view source, std::string_view prefix) : prefix_(prefix) {
    trace_.source = source;
  }

  void event(const TraceEvent& event) {
    const std::string name = event.text_or_none("name");
    if (!name.starts_with(prefix_) || event.phase() != "X") return;
    const nanoseconds start = event.microseconds("ts");
    const Span span{start, start + event.length("dur")};
    Seen& seen = seen_[name.substr(prefix_.size())];
    if (event.text_or_none("cat") != "gpu_user_annotation") {
      seen.on_host.push_back(span);
      return;
    }
    trace_.has_device = true;
    seen.on_device[{event.whole("pid"), event.whole("tid")}].push_back(span);
  }

  void member(const std::string& key, const json& value) {
    if (key != "distributedInfo") return;
    trace_.rank = number_of(value, "rank", trace_.source);
    trace_.world_size = number_of(value, "world_size", trace_.source);
  }

  ProfilerTrace finish() {
    for (auto& [name, seen] : seen_) {
      trace_.ranges.push_back({.name = name,
                               .on_host = lengths_of(std::move(seen.on_host)),
                               .on_device = lengths_of(joined(seen.on_device))});
    }
    return std::move(trace_);
  }

 private:
  ProfilerTrace trace_;
  std::string_view prefix_;
  std::map<std::string, Seen> seen_;
};

}  // namespace

ProfilerTrace parse_profiler_trace(std::string_view text, std::string_view source,
                                   std::string_view prefix) {
  Collector collector(source, prefix);
  read_trace_events(
      text, source,
      {.event = [&](const TraceEvent& event) { collector.event(event); },
       .member = [&](const std::string& key, const json& value) { collector.member(key, value); }});
  return collector.finish();
}

}  // namespace unlatch
