#include "files/native_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

namespace unlatch::files {
namespace {

constexpr std::array ops{
    Op::forward, Op::backward,     Op::backward_input, Op::backward_weight, Op::recompute,
    Op::update,  Op::push_forward, Op::pop_forward,    Op::push_backward,   Op::pop_backward};

/// Takes a whole number from the front of the text.
bool take_number(std::string_view& text, int& number) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::optional<Token> parse_token(std::string_view text) {
  Token token;
  if (!take_number(text, token.stage.value)) return std::nullopt;
  const std::size_t digits = std::min(text.find_first_of("0123456789"), text.size());
  const std::string_view word = text.substr(0, digits);
  text.remove_prefix(digits);
  const auto* op = std::ranges::find_if(ops, [&](Op known) { return letter(known) == word; });
  if (op == std::end(ops) || !take_number(text, token.number) || !text.empty()) {
    return std::nullopt;
  }
  token.op = *op;
  return token;
}

void UpdateCounter::note(const Program::Item& item) {
  const int k = item.stage.value;
  if (item.kind != Program::Item::Kind::task || k < 0 || k >= static_cast<int>(updates_.size())) {
    return;
  }
  if (item.op == Op::update) {
    ++updates_[k];
    newest_[k] = {-1};
  } else if (item.op == Op::backward || item.op == Op::backward_weight) {
    newest_[k] = std::max(newest_[k], item.micro_batch);
  }
}

}  // namespace unlatch::files
