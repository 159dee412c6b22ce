// Chrome trace writer: a timeline for Perfetto and chrome://tracing, written as a stream.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "traces/memory.h"
#include "traces/timeline.h"

namespace unlatch {

/// A part of the time axis.
struct TimeWindow {
  nanoseconds from{0};
  nanoseconds to{0};
  /// True when the span has a moment in common with [from, to).
  bool touches(const Span& span) const {
    return span.start < to && (span.end > from || span.start >= from);
  }
};

struct ChromeTraceOptions {
  std::vector<int> ranks = {};            ///< only these; empty means all
  std::optional<TimeWindow> window = {};  ///< only tasks that touch it, each with its whole length
  /// What memory() returned, one a rank, for the counters; empty means none. Must outlive the call.
  std::span<const RankMemory> memory = {};
  std::vector<std::string> stage_names = {};  ///< for the metadata, e.g. the layers of each stage
};

/// Writes one process a rank (pid = rank + 1) with its compute, recompute and link lanes as threads
/// from 1, spans in order of time, an arrow for each activation or gradient between two ranks
/// shown, from the task that makes it to the task that uses it, and one memory counter a rank
/// (bytes, or tapes held when no size is known). Each arrow's ends lie 1 ns inside their spans, so
/// that no neighbour can take them; ends on zero-length spans lie on them, and viewers may drop
/// those. Text that is not UTF-8 gets U+FFFD in its place.
/// Needs at most 16 bytes of memory a task beside what is given. Same bytes every time.
/// Throws Error for a rank that is not there, for a window without length, when two tasks of
/// one lane overlap (no viewer draws that rightly), and when the stream fails.
void write_chrome_trace(std::ostream& out, const TaskGraph& graph, const Timeline& timeline,
                        const ChromeTraceOptions& options = {});

/// The same into a file, whole or not at all; compressed when the name ends in .gz.
void write_chrome_trace(const std::string& path, const TaskGraph& graph, const Timeline& timeline,
                        const ChromeTraceOptions& options = {});

struct TraceSize {
  std::int64_t events = 0;  ///< exact: spans, metadata, both ends of arrows, samples
  std::int64_t bytes = 0;   ///< about, before compression (which leaves roughly a tenth)
};

/// How large the trace would be. chrome://tracing opens about a million events, Perfetto in a
/// browser a few million.
TraceSize chrome_trace_size(const TaskGraph& graph, const Timeline& timeline,
                            const ChromeTraceOptions& options = {});

}  // namespace unlatch
