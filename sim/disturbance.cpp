#include "sim/disturbance.h"

#include <algorithm>

#include "schedules/error.h"
#include "sim/units.h"

namespace unlatch::sim {
namespace {

constexpr double largest_factor = 1e6;

double positive_factor(std::string_view flag, std::string_view text, std::string_view factor) {
  const double number = parse_number(fmt::format("{}, factor", flag), factor, 0, largest_factor);
  require(number > 0, "{} '{}': the factor must be greater than 0 (2 is half as fast)", flag, text);
  return number;
}

Rank rank_below(std::string_view flag, std::string_view text, int ranks) {
  return {
      static_cast<std::int32_t>(parse_whole(fmt::format("{}, rank", flag), text, 0, ranks - 1))};
}

}  // namespace

SlowRank parse_slow(std::string_view text, int ranks, std::string_view setting) {
  const auto colon = text.find(':');
  require(colon != std::string_view::npos,
          "{} '{}': must be RANK:FACTOR, such as 1:1.5 (repeat the flag for more ranks)", setting,
          text);
  return {rank_below(setting, text.substr(0, colon), ranks),
          positive_factor(setting, text, text.substr(colon + 1))};
}

SlowLink parse_slow_link(std::string_view text, int ranks, std::string_view setting) {
  const auto colon = text.find(':');
  const auto dash = text.substr(0, colon).find('-');
  require(colon != std::string_view::npos && dash != std::string_view::npos,
          "{} '{}': must be RANK-RANK:FACTOR, such as 0-1:3 (repeat the flag for more "
          "links)",
          setting, text);
  const Rank one = rank_below(setting, text.substr(0, dash), ranks);
  const Rank other = rank_below(setting, text.substr(dash + 1, colon - dash - 1), ranks);
  require(one != other, "{} '{}': a link joins two ranks", setting, text);
  return {std::min(one, other), std::max(one, other),
          positive_factor(setting, text, text.substr(colon + 1))};
}

RankPause parse_pause(std::string_view text, int ranks, std::string_view setting) {
  const auto first = text.find(':');
  const auto second = first == std::string_view::npos ? first : text.find(':', first + 1);
  require(second != std::string_view::npos,
          "{} '{}': must be RANK:AT:TIME, such as 1:100ms:20ms (repeat the flag for more)", setting,
          text);
  const Rank rank = rank_below(setting, text.substr(0, first), ranks);
  const Pause pause{
      parse_duration(fmt::format("{}, start", setting), text.substr(first + 1, second - first - 1)),
      parse_duration(fmt::format("{}, time", setting), text.substr(second + 1))};
  require(pause.length > nanoseconds{0}, "{} '{}': the time must be longer than 0", setting, text);
  return {rank, pause};
}

std::vector<double> slow_factors(const std::vector<SlowRank>& slow, int ranks,
                                 std::string_view setting) {
  std::vector<double> factors(ranks, 1.0);
  std::vector<bool> named(ranks, false);
  for (const auto& [rank, factor] : slow) {
    require(!named[rank.value], "{} names rank {} twice; give each rank one factor", setting,
            rank.value);
    named[rank.value] = true;
    factors[rank.value] = factor;
  }
  return factors;
}

void require_distinct(const std::vector<SlowLink>& links, std::string_view setting) {
  for (auto link = links.begin(); link != links.end(); ++link) {
    const bool named = std::any_of(
        links.begin(), link, [&](const SlowLink& other) { return other.joins(link->a, link->b); });
    require(!named, "{} names ranks {} and {} twice; give each link one factor", setting,
            link->a.value, link->b.value);
  }
}

double Disturbance::slow_factor(Rank rank) const {
  return slow.empty() ? 1 : slow[static_cast<std::size_t>(rank.value)];
}

double Disturbance::slow_factor(Rank from, Rank to) const {
  const auto found =
      std::ranges::find_if(slow_links, [&](const SlowLink& link) { return link.joins(from, to); });
  return found == slow_links.end() ? 1 : found->factor;
}

bool Disturbance::none() const {
  const auto is_one = [](double factor) { return factor == 1; };
  return stragglers.empty() && pauses.empty() && std::ranges::all_of(slow, is_one) &&
         std::ranges::all_of(slow_links, is_one, &SlowLink::factor);
}

bool Disturbance::touches_links() const {
  return !slow_links.empty() ||
         std::ranges::find(stragglers, Straggler::On::links, &Straggler::on) != stragglers.end();
}

}  // namespace unlatch::sim
