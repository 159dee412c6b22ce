#include "schedules/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace unlatch {
namespace {

/// Levenshtein distance with swaps of neighbours counted once.
int distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

/// Letters of ASCII alone, in every locale.
std::string in_lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace

std::string suggest(std::string_view text, const std::vector<std::string_view>& known) {
  if (text.size() > 64) return "";
  const std::string given = in_lower_case(text);
  std::vector<std::pair<int, std::string_view>> close;
  for (const std::string_view name : known) {
    const bool prefix = given.size() >= 2 && (name.starts_with(given) || given.starts_with(name));
    const int d = prefix ? 1 : distance(given, in_lower_case(name));
    if (d <= 2 && d < static_cast<int>(std::max(given.size(), name.size()))) {
      close.emplace_back(d, name);
    }
  }
  std::stable_sort(close.begin(), close.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (close.empty()) return "";
  if (close.size() > 3) close.resize(3);
  std::string answer = " Did you mean ";
  for (std::size_t i = 0; i < close.size(); ++i) {
    const char* before = i == 0 ? "" : i + 1 == close.size() ? " or " : ", ";
    answer += fmt::format("{}'{}'", before, close[i].second);
  }
  return fmt::format("{}?", answer);
}

}  // namespace unlatch
