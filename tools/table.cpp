#include "tools/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace unlatch::tools {
namespace {

/// Characters, not bytes: UTF-8 continuation bytes take no column.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t to, bool left) {
  const std::string blanks(to - std::min(to, width(text)), ' ');
  return left ? fmt::format("{}{}", text, blanks) : fmt::format("{}{}", blanks, text);
}

}  // namespace

Table::Table(const std::vector<std::string>& columns) {
  for (const std::string& column : columns) {
    left_.push_back(column.starts_with('<'));
    names_.push_back(left_.back() ? column.substr(1) : column);
  }
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (const std::string& name : names_) widths.push_back(width(name));
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string result;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      text += fmt::format("{}{}", c == 0 ? "" : "  ", padded(cells[c], widths[c], left_[c]));
    }
    text.erase(text.find_last_not_of(' ') + 1);
    result += text;
    result += '\n';
  };
  line(names_);
  for (const auto& row : rows_) line(row);
  return result;
}

std::string Table::markdown() const {
  const auto escaped = [](const std::string& cell) {
    std::string text;
    for (char c : cell) {
      if (c == '|') text += '\\';
      text += c;
    }
    return text;
  };
  std::string result = "|";
  for (const std::string& name : names_) result += fmt::format(" {} |", escaped(name));
  result += "\n|";
  for (bool left : left_) result += left ? "---|" : "---:|";
  result += '\n';
  for (const auto& row : rows_) {
    result += '|';
    for (const std::string& cell : row) result += fmt::format(" {} |", escaped(cell));
    result += '\n';
  }
  return result;
}

std::string Table::html() const {
  std::string result = "<table>\n<tr>";
  for (const std::string& name : names_) result += fmt::format("<th>{}</th>", escape_html(name));
  result += "</tr>\n";
  for (const auto& row : rows_) {
    result += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c) {
      result +=
          fmt::format("<td{}>{}</td>", left_[c] ? " class=\"left\"" : "", escape_html(row[c]));
    }
    result += "</tr>\n";
  }
  return result + "</table>\n";
}

std::string escape_html(std::string_view text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace unlatch::tools
