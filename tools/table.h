// Table: rows of text with aligned columns.
#pragma once

#include <string>
#include <vector>

namespace unlatch::tools {

class Table {
 public:
  /// Columns named with a leading '<' are left-aligned, all others right-aligned.
  explicit Table(const std::vector<std::string>& columns);
  std::size_t columns() const { return names_.size(); }
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// One line a row, two blanks between columns, each line ended by a newline.
  std::string text() const;
  /// The same as a Markdown table.
  std::string markdown() const;
  /// The same as an HTML table, texts escaped.
  std::string html() const;

 private:
  std::vector<std::string> names_;
  std::vector<bool> left_;
  std::vector<std::vector<std::string>> rows_;
};

/// Text with <, >, & and quotes escaped.
std::string escape_html(std::string_view text);

}  // namespace unlatch::tools
