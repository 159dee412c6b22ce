#include "sim/stragglers.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "schedules/error.h"
#include "schedules/suggest.h"
#include "sim/units.h"

namespace unlatch::sim {

namespace {

constexpr double largest_factor = 1e6;

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit of the input moves every bit
/// of the output.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t random_bits(std::uint64_t seed, int run, Rank rank, int step) {
  const std::uint64_t place = static_cast<std::uint64_t>(static_cast<std::uint32_t>(rank.value))
                                  << 32 |
                              static_cast<std::uint32_t>(step);
  return mixed(mixed(mixed(seed) ^ static_cast<std::uint32_t>(run)) ^ place);
}

/// Uniform in (0, 1), from the 53 upper bits.
double uniform(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

double standard_normal(std::uint64_t bits) {  // Box and Muller 1958
  const double radius = std::sqrt(-2.0 * std::log(uniform(bits)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform(mixed(bits)));
}

nanoseconds stretched(nanoseconds t, double factor) {
  const double slowed = static_cast<double>(t.count()) * factor;
  constexpr double most_ns = 4e18;  // two of them still fit 64 bits
  require(slowed < most_ns,
          "a task of {} made {:.6g} times slower would last longer than 126 years, the most that "
          "can be simulated; give shorter costs or smaller factors",
          format_duration(t), factor);
  return nanoseconds(std::llround(slowed));
}

void set_key(Straggler& straggler, std::string_view text, std::string_view key,
             std::string_view value) {
  const std::string setting = fmt::format("--straggler '{}': {}", text, key);
  const bool lognormal = straggler.kind == Straggler::Kind::lognormal;
  if (lognormal && key == "sigma") {
    straggler.sigma = parse_number(setting, value, 0, 5);
  } else if (!lognormal && key == "probability") {
    straggler.probability = parse_number(setting, value, 0, 1);
  } else if (!lognormal && key == "factor") {
    straggler.factor = parse_number(setting, value, 0, largest_factor);
    require(straggler.factor > 0, "{} '{}': must be greater than 0", setting, value);
  } else {
    const std::vector<std::string_view> known =
        lognormal ? std::vector<std::string_view>{"sigma"}
                  : std::vector<std::string_view>{"probability", "factor"};
    fail("--straggler '{}': unknown key '{}'; the keys are {}.{}", text, key,
         fmt::join(known, ", "), suggest(key, known));
  }
}

}  // namespace

SlowRank parse_slow(std::string_view text, int ranks) {
  const auto colon = text.find(':');
  require(colon != std::string_view::npos,
          "--slow '{}': must be RANK:FACTOR, such as 1:1.5 (repeat the flag for more ranks)", text);
  const auto rank = parse_whole("--slow, rank", text.substr(0, colon), 0, ranks - 1);
  const double factor = parse_number("--slow, factor", text.substr(colon + 1), 0, largest_factor);
  require(factor > 0, "--slow '{}': the factor must be greater than 0 (2 is half as fast)", text);
  return {Rank{static_cast<std::int32_t>(rank)}, factor};
}

std::vector<double> slow_factors(const std::vector<SlowRank>& slow, int ranks) {
  std::vector<double> factors(ranks, 1.0);
  std::vector<bool> named(ranks, false);
  for (const auto& [rank, factor] : slow) {
    require(!named[rank.value], "--slow names rank {} twice; give each rank one factor",
            rank.value);
    named[rank.value] = true;
    factors[rank.value] = factor;
  }
  return factors;
}

Straggler Straggler::parse(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::vector<std::string_view> kinds{"random", "lognormal"};
  Straggler straggler;
  require(kind == "random" || kind == "lognormal",
          "--straggler '{}': unknown kind '{}'; the kinds are {}.{}", text, kind,
          fmt::join(kinds, ", "), suggest(kind, kinds));
  straggler.kind = kind == "random" ? Kind::random : Kind::lognormal;
  if (colon == std::string_view::npos) return straggler;
  for (const std::string_view entry : split_list(text.substr(colon + 1))) {
    const auto equals = entry.find('=');
    require(equals != std::string_view::npos, "--straggler '{}': '{}' must be key=value", text,
            entry);
    set_key(straggler, text, entry.substr(0, equals), entry.substr(equals + 1));
  }
  return straggler;
}

double Straggler::draw(std::uint64_t seed, int run, Rank rank, int step) const {
  if (kind == Kind::none) return 1;
  const std::uint64_t bits = random_bits(seed, run, rank, step);
  if (kind == Kind::lognormal) return std::exp(sigma * standard_normal(bits));
  return uniform(bits) < probability ? factor : 1;
}

StragglerCosts::StragglerCosts(const StageCosts& costs, const TaskGraph& graph,
                               std::vector<double> slow, Straggler straggler, std::uint64_t seed,
                               int run)
    : traffic_(costs.traffic()),
      table_(*costs.table()),
      overlap_(costs.times().overlap),
      slow_(std::move(slow)),
      straggler_(straggler),
      seed_(seed),
      run_(run) {
  for (const Stage k : up_to<Stage>(table_.stages())) {
    rank_of_stage_.push_back(graph.rank_of(k));
    if (straggler_.random()) continue;
    for (int op = 0; is_compute(static_cast<Op>(op)); ++op) {
      const Op each = static_cast<Op>(op);
      table_.set(each, k, stretched(table_.at(each, k), slow_[graph.rank_of(k).value]));
    }
  }
}

nanoseconds StragglerCosts::duration(const Task& task) const {
  const nanoseconds fixed = table_.at(task.op, task.stage);
  if (!straggler_.random() || !is_compute(task.op) || fixed.count() == 0) return fixed;
  const Rank rank = rank_of_stage_[task.stage.value];
  return stretched(fixed, slow_[rank.value] * straggler_.draw(seed_, run_, rank, task.step));
}

}  // namespace unlatch::sim
