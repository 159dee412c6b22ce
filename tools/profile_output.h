// Profile output: what 'unlatch profile' writes and prints, whatever it measured.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/arguments.h"
#include "tools/json_output.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {

/// Opens the file of --save before the measuring, so that a bad path fails first.
class ProfileOutput {
 public:
  explicit ProfileOutput(const Arguments& arguments);
  /// Writes the file, and prints the document or the text.
  void give(const Json& document, const std::string& text);

 private:
  std::optional<AtomicFile> file_;
  bool json_;
};

/// Throws Error for a flag that belongs to another way of making a profile than that of flag `way`.
void require_no_others(const Arguments& arguments, std::string_view way,
                       const std::vector<std::string_view>& allowed);

/// --from-trace: stages from PyTorch profiles.
int profile_traces(const Arguments& arguments);
/// --machine: a hardware file of this machine.
int profile_machine(const Arguments& arguments);

}  // namespace unlatch::tools
