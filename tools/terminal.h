// Terminal: standard output and standard error of the program, and the signals that end it.
#pragma once

#include <string>
#include <string_view>

namespace unlatch::tools {

/// Makes closed standard streams fail on use rather than be reused for files, turns a broken pipe
/// into a write error, and from now on ends the program with 130 on SIGINT and 143 on SIGTERM,
/// unfinished files removed. Call first, before any thread starts.
void prepare_process();

/// Data for the user on standard output. Throws Error when it cannot be written.
void print(std::string_view text);
/// Flushes what was printed. Throws Error when it cannot be written (disk full, closed pipe).
void finish_output();

/// Progress and remarks, on standard error.
void say(std::string_view text);
/// The one message of a failed run: "error: ...".
void say_error(std::string_view message);

/// Bold, where standard output is a terminal and NO_COLOR is not set.
std::string bold(std::string_view text);
bool progress_is_shown();

}  // namespace unlatch::tools
