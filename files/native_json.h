// The native file form of a schedule: JSON that can say everything a Schedule can.
//
// schedule.schema.json describes it for editors and validators.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/schedule.h"

namespace unlatch::files {

/// What the file says, and the entries of its programs that could not be read.
struct NativeSchedule {
  Schedule schedule;
  std::vector<Violation> problems;  ///< rules "token" and "order"; row: program, column: entry
};

/// Reads the text of a file. Throws Error, with the line where it can, for what is no JSON, for
/// unknown, missing or repeated keys and for values that contradict each other.
NativeSchedule parse_native_json(std::string_view text);

/// The schedule as a document, one line a program.
std::string native_json(const Schedule& schedule);

}  // namespace unlatch::files
