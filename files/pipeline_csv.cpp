// A scanner over the text, cell by cell, without copies: a million cells in a fraction of a second.
#include "files/pipeline_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "files/parse_action.h"
#include "schedules/error.h"

namespace unlatch::files {
namespace {

constexpr std::size_t most_problems = 1000;

constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }
constexpr bool ends_line(char c) { return c == '\n' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  PipelineCsv read() {
    while (at_ != end_ && !full()) read_row();
    drop_empty_last_row();
    for (std::size_t row = 0; row < csv_.table.rows.size(); ++row) check_row(row);
    apply_dialect();
    std::ranges::stable_sort(csv_.problems, {}, [](const Violation& problem) {
      return std::pair{problem.row, problem.column};
    });
    return std::move(csv_);
  }

 private:
  bool full() const { return csv_.problems.size() >= most_problems; }
  int row() const { return static_cast<int>(csv_.table.rows.size()) - 1; }

  void read_row() {
    ActionRow& actions = csv_.table.rows.emplace_back();
    if (csv_.table.rows.size() > 1) actions.reserve(csv_.table.rows.front().size());
    column_ = 0;
    blank_row_ = true;
    while (!full()) {
      read_cell(actions);
      if (at_ == end_) return;
      if (ends_line(*at_)) break;
      ++at_;  // the comma
      ++column_;
      blank_row_ = false;
    }
    if (full()) return;
    const bool carriage_return = *at_++ == '\r';
    if (carriage_return && at_ != end_ && *at_ == '\n') ++at_;
  }

  /// Leaves at_ on the comma or line end behind the cell.
  void read_cell(ActionRow& actions) {
    while (at_ != end_ && is_blank(*at_)) ++at_;
    if (at_ != end_ && *at_ == '"') return read_quoted_cell(actions);
    const char* const start = at_;
    while (at_ != end_ && *at_ != ',' && !ends_line(*at_)) ++at_;
    read_action(trimmed({start, at_}), actions);
  }

  void read_quoted_cell(ActionRow& actions) {
    const char* const start = ++at_;
    while (at_ != end_ && *at_ != '"' && !ends_line(*at_)) ++at_;
    const std::string_view content(start, at_);
    const bool closed = at_ != end_ && *at_ == '"';
    if (closed) ++at_;
    while (at_ != end_ && is_blank(*at_)) ++at_;
    const bool alone = at_ == end_ || *at_ == ',' || ends_line(*at_);
    blank_row_ = false;
    if (closed && alone) return read_action(trimmed(content), actions);
    while (at_ != end_ && *at_ != ',' && !ends_line(*at_)) ++at_;
    report({start - 1, at_}, closed ? "text follows the closing quote"
                                    : "the quote is not closed before the line ends");
  }

  void read_action(std::string_view token, ActionRow& actions) {
    if (token.empty()) return;
    blank_row_ = false;
    if (token.front() == '(') return read_overlap(token, actions);
    Action action;
    const std::string_view reason = parse(token, action);
    reason.empty() ? actions.push_back(action) : report(token, reason);
  }

  /// "(0F1;1B0)OVERLAP_F_B": the parts run in one cell, one after the other.
  void read_overlap(std::string_view token, ActionRow& actions) {
    const std::size_t close = token.find(')');
    if (close == std::string_view::npos) return report(token, "the parenthesis is not closed");
    if (token.substr(close + 1) != "OVERLAP_F_B") {
      return report(token, "only OVERLAP_F_B may follow the parenthesis");
    }
    std::string_view parts = token.substr(1, close - 1);
    const std::size_t before = actions.size();
    while (true) {
      const std::size_t semicolon = parts.find(';');
      Action action;
      std::string_view reason = parse(trimmed(parts.substr(0, semicolon)), action);
      if (reason.empty() && !is_compute(action.kind)) reason = "only F, B, I and W may overlap";
      if (!reason.empty()) {
        actions.resize(before);
        return report(token, reason);
      }
      action.overlap = actions.size() == before ? Overlap::first : Overlap::next;
      actions.push_back(action);
      if (semicolon == std::string_view::npos) return;
      parts.remove_prefix(semicolon + 1);
    }
  }

  /// Fills the action, or returns why the token is none.
  std::string_view parse(std::string_view token, Action& action) {
    bool old_whole = false;
    const std::string_view reason = parse_action(token, action, old_whole);
    action.column = column_;
    if (!reason.empty()) return reason;
    if (old_whole) {
      old_whole_.push_back(action);
      old_rows_.push_back(row());
    }
    input_gradients_ = input_gradients_ || action.kind == ActionKind::backward_input;
    weight_gradients_ = weight_gradients_ || action.kind == ActionKind::backward_weight;
    return "";
  }

  void apply_dialect() {
    if (!old_whole_.empty()) {
      csv_.dialect = Dialect::intermediate;
      std::size_t next = 0;
      for (std::size_t row = 0; row < csv_.table.rows.size(); ++row) {
        for (Action& action : csv_.table.rows[row]) {
          if (action.kind != ActionKind::backward) continue;
          const bool whole = next < old_whole_.size() && old_rows_[next] == static_cast<int>(row) &&
                             same_task(old_whole_[next], action);
          if (whole) {
            ++next;
          } else {
            action.kind = ActionKind::backward_input;
          }
        }
      }
    } else if (weight_gradients_ && !input_gradients_) {
      apply_first_dialect();
    }
  }

  static bool same_task(const Action& a, const Action& b) {
    return a.stage == b.stage && a.micro_batch == b.micro_batch && a.column == b.column;
  }

  void apply_first_dialect() {
    csv_.dialect = Dialect::first;
    std::vector<bool> split;
    for (const ActionRow& actions : csv_.table.rows) {
      for (const Action& action : actions) {
        if (action.kind != ActionKind::backward_weight) continue;
        if (split.size() <= static_cast<std::size_t>(action.stage.value)) {
          split.resize(static_cast<std::size_t>(action.stage.value) + 1);
        }
        split[action.stage.value] = true;
      }
    }
    for (ActionRow& actions : csv_.table.rows) {
      for (Action& action : actions) {
        const bool on_split = static_cast<std::size_t>(action.stage.value) < split.size() &&
                              split[action.stage.value];
        if (action.kind == ActionKind::backward && on_split) {
          action.kind = ActionKind::backward_input;
        }
      }
    }
  }

  void drop_empty_last_row() {
    if (csv_.table.rows.size() > 1 && blank_row_) csv_.table.rows.pop_back();
  }

  void check_row(std::size_t row) {
    if (!csv_.table.rows[row].empty() || full()) return;
    const bool reported = std::ranges::any_of(csv_.problems, [&](const Violation& problem) {
      return problem.row == static_cast<int>(row);
    });
    if (reported) return;
    csv_.problems.push_back(
        {"row",
         {},
         static_cast<int>(row),
         -1,
         fmt::format("row {} is empty: every line is a rank, and a rank without work is no part of "
                     "a pipeline; remove the line",
                     row)});
  }

  void report(std::string_view token, std::string_view reason) {
    constexpr std::size_t longest = 60;
    const std::string shown(token.substr(0, longest));
    require(token.find(';') == std::string_view::npos || token.front() == '(',
            "row {}, column {}: '{}': the cells are separated by semicolons; separate them by "
            "commas",
            row(), column_, shown);
    require(token.find('\t') == std::string_view::npos,
            "row {}, column {}: '{}': the cells are separated by tabs; separate them by commas",
            row(), column_, shown);
    csv_.problems.push_back({"token",
                             {shown},
                             row(),
                             column_,
                             fmt::format("row {}, column {}: '{}' is not an action: {}", row(),
                                         column_, shown, reason)});
    if (full()) csv_.problems.back().message += "; too many problems, the rest was not read";
  }

  const char* at_;
  const char* end_;
  int column_ = 0;
  bool blank_row_ = false;  ///< nothing but blanks since the line began
  bool input_gradients_ = false, weight_gradients_ = false;
  std::vector<Action> old_whole_;  ///< BW, in the order of the file
  std::vector<int> old_rows_;
  PipelineCsv csv_;
};

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view utf8_mark = "\xEF\xBB\xBF";
  require(!text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF") &&
              text.substr(0, 4).find('\0') == std::string_view::npos,
          "the file is UTF-16; save it as UTF-8 or plain text");
  if (text.starts_with(utf8_mark)) text.remove_prefix(utf8_mark.size());
  return text;
}

}  // namespace

std::string_view name(Dialect dialect) {
  switch (dialect) {
    case Dialect::now:
      return "now";
    case Dialect::intermediate:
      return "intermediate";
    case Dialect::first:
      return "first";
  }
  return "?";
}

PipelineCsv parse_pipeline_csv(std::string_view text) { return Reader(without_mark(text)).read(); }

std::string pipeline_csv(const ActionTable& table) {
  fmt::memory_buffer out;
  for (const ActionRow& row : table.rows) {
    for (std::size_t j = 0; j < row.size(); ++j) {
      const Action& action = row[j];
      const bool next_joins = j + 1 < row.size() && row[j + 1].overlap == Overlap::next;
      if (action.overlap == Overlap::first) out.push_back('(');
      if (takes_micro_batch(action.kind)) {
        fmt::format_to(std::back_inserter(out), "{}{}{}", action.stage.value, letter(action.kind),
                       action.micro_batch.value);
      } else {
        fmt::format_to(std::back_inserter(out), "{}{}", action.stage.value, letter(action.kind));
      }
      if (action.overlap != Overlap::none && !next_joins) {
        fmt::format_to(std::back_inserter(out), ")OVERLAP_F_B");
      }
      if (j + 1 < row.size()) out.push_back(next_joins ? ';' : ',');
    }
    fmt::format_to(std::back_inserter(out), "\r\n");
  }
  return fmt::to_string(out);
}

}  // namespace unlatch::files
