#include "schedules/parse_task.h"

#include <charconv>

#include "schedules/error.h"

namespace unlatch {
namespace {

/// Takes a whole number from the front of the text; false when there is none.
bool take_number(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.empty() || text.front() == '-') return false;
  text.remove_prefix(end - text.data());
  return true;
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

void add_cell(Program& program, std::string_view cell, int row, int column) {
  const std::string_view token = without_blanks(cell);
  if (token.empty()) return;
  std::string_view rest = token;
  Stage k;
  MicroBatch i;
  const bool has_stage = take_number(rest, k.value);
  const char kind = rest.empty() ? '?' : rest.front();
  if (!rest.empty()) rest.remove_prefix(1);
  const bool readable = has_stage && take_number(rest, i.value) && rest.empty();
  if (readable && kind == 'F') {
    program.forward(k, i);
  } else if (readable && kind == 'B') {
    program.backward(k, i);
  } else if (readable && kind == 'I') {
    program.backward_input(k, i);
  } else if (readable && kind == 'W') {
    program.backward_weight(k, i);
  } else if (readable && kind == 'R') {
    program.recompute(k, i);
  } else if (readable && kind == 'U') {
    program.update(k, i);
  } else {
    fail(
        "row {}, column {}: '{}' is not a task; write <stage><letter><micro-batch> with a letter "
        "of F B I W R U, as in 2F0",
        row, column, token);
  }
}

}  // namespace unlatch
