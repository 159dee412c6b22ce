// profiler_trace: the ranges that a training program named in a PyTorch profile (Kineto's JSON).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/timeline.h"

namespace unlatch {

/// All ranges of one name, in the order in which they were run.
struct NamedRange {
  std::string name;                  ///< without the prefix
  std::vector<nanoseconds> on_host;  ///< how long each was open, waiting included
  /// From the start of the first kernel launched in it to the end of the last one.
  std::vector<nanoseconds> on_device;
};

/// One process of a run.
struct ProfilerTrace {
  std::string source;              ///< for messages
  int rank = -1;                   ///< among all processes; -1 where the file does not say
  int world_size = -1;             ///< how many there are
  bool has_device = false;         ///< any of the ranges was seen on a GPU
  std::vector<NamedRange> ranges;  ///< by name
};

/// Reads what record_function marked with names that begin with `prefix`. Times are differences, so
/// that both kinds of files are read alike: of old, with absolute microseconds, and with those
/// after "baseTimeNanoseconds". A range on several streams lasts from its first to its last one.
/// Throws Error with the index of the event or the byte of the first fault.
ProfilerTrace parse_profiler_trace(std::string_view text, std::string_view source,
                                   std::string_view prefix);

}  // namespace unlatch
