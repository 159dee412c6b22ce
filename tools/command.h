// Command: one word of the program, the flags it takes and what it does.
#pragma once

#include <string_view>
#include <vector>

#include "tools/arguments.h"

namespace unlatch::tools {

/// One long option, which is also one key of a scenario file.
struct Flag {
  enum class Kind {
    presence,  ///< takes no value
    single,    ///< one value, given at most once
    repeated,  ///< one value each time it is given
  };
  std::string_view name;
  std::string_view value;  ///< "N", "T[,T...]"; what help shows
  std::string_view help;
  Kind kind = Kind::single;
};

/// Flags under one heading of the help text.
struct FlagGroup {
  std::string_view title;
  std::vector<Flag> flags;
};

struct Command {
  std::string_view name;
  std::string_view summary;                     ///< one line for the list of commands
  std::vector<std::string_view> positionals{};  ///< "SPEC"; names shown in help
  bool reads_scenario = true;                   ///< a first argument NAME.json holds flags
  std::vector<FlagGroup> groups{};
  /// Returns the exit code; throws Error (exit 2) or RunError (exit 1).
  int (*run)(const Arguments&) = nullptr;

  const Flag* find(std::string_view flag) const;
  std::vector<std::string_view> flag_names() const;
};

Command schedules_command();
Command show_command();
Command simulate_command();
Command compare_command();
Command stragglers_command();
Command numerics_command();
Command train_command();
Command eval_command();
Command profile_command();
Command partition_command();
Command diff_command();
Command check_command();
Command convert_command();
Command search_command();

}  // namespace unlatch::tools
