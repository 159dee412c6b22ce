// The words of the native form: how an entry of a program is written.
#pragma once

#include <optional>
#include <string_view>

#include "schedules/schedule.h"

namespace unlatch::files {

inline constexpr std::string_view format_name = "unlatch-schedule";
inline constexpr int format_version = 1;
inline constexpr std::string_view barrier_word = "barrier";
inline constexpr std::string_view next_step_word = "next_step";

/// A task as text: <stage><letter><number>, the number of the update for U, else the micro-batch.
struct Token {
  Op op = Op::forward;
  Stage stage;
  int number = 0;
};

/// Nothing when the text is no task.
std::optional<Token> parse_token(std::string_view text);

/// Counts the updates of each stage of one program and remembers their newest gradients: what
/// turns the number of an update into its last micro-batch and back.
class UpdateCounter {
 public:
  explicit UpdateCounter(int stages) : updates_(stages), newest_(stages, MicroBatch{-1}) {}

  void note(const Program::Item& item);
  /// Updates of the stage before this place.
  int updates(Stage k) const { return updates_[k.value]; }
  /// The newest gradient since the last of them; -1: none.
  MicroBatch newest_gradient(Stage k) const { return newest_[k.value]; }

 private:
  std::vector<int> updates_;
  std::vector<MicroBatch> newest_;
};

}  // namespace unlatch::files
