#include "sim/stragglers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "schedules/error.h"
#include "schedules/suggest.h"
#include "sim/units.h"
#include "traces/input_file.h"

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

/// Numbers from one seed, none of which is mixed from another: draws mix what they are given.
class Stream {
 public:
  explicit Stream(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t next() { return mixed(seed_ ^ mixed(++count_)); }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

/// With mean 1 (Marsaglia and Tsang 2000; for shapes below 1 by their boost).
double gamma_factor(Stream& stream, double shape) {
  const double boosted = shape < 1 ? shape + 1 : shape;
  const double d = boosted - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = standard_normal(stream.next());
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(uniform(stream.next())) >= 0.5 * x * x + d - d * v + d * std::log(v)) continue;
    const double boost = shape < 1 ? std::pow(uniform(stream.next()), 1 / shape) : 1;
    return d * v * boost / shape;
  }
}

/// One a line; blank lines are skipped.
std::vector<double> read_factors(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<double> factors;
  int line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view entry(text.data() + at, end - at);
    if (entry.ends_with('\r')) entry.remove_suffix(1);
    at = end + 1;
    ++line;
    if (entry.empty()) continue;
    const std::string place = fmt::format("{}, line {}", path, line);
    factors.push_back(parse_number(place, entry, 0, largest_factor));
    require(factors.back() > 0, "{}: a factor must be greater than 0", place);
  }
  require(!factors.empty(), "{}: it holds no factors; write one a line", path);
  return factors;
}

struct KindName {
  std::string_view name;
  Straggler::Kind kind;
  std::vector<std::string_view> keys;
};

const std::vector<KindName>& kinds() {
  using Kind = Straggler::Kind;
  static const std::vector<KindName> all{{"random", Kind::random, {"probability", "factor"}},
                                         {"lognormal", Kind::lognormal, {"sigma"}},
                                         {"gamma", Kind::gamma, {"shape"}},
                                         {"empirical", Kind::empirical, {"file"}}};
  return all;
}

void set_key(Straggler& straggler, const KindName& kind, std::string_view text,
             std::string_view key, std::string_view value) {
  require(std::ranges::find(kind.keys, key) != kind.keys.end(),
          "--straggler '{}': unknown key '{}'; the keys are {}.{}", text, key,
          fmt::join(kind.keys, ", "), suggest(key, kind.keys));
  const std::string setting = fmt::format("--straggler '{}': {}", text, key);
  const auto positive = [&](double most) {
    const double number = parse_number(setting, value, 0, most);
    require(number > 0, "{} '{}': must be greater than 0", setting, value);
    return number;
  };
  if (key == "sigma") straggler.sigma = parse_number(setting, value, 0, 5);
  if (key == "probability") straggler.probability = parse_number(setting, value, 0, 1);
  if (key == "factor") straggler.factor = positive(largest_factor);
  if (key == "shape") straggler.shape = positive(1e9);
  if (key == "file") straggler.factors = read_factors(std::string(value));
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
  const std::string_view name = text.substr(0, colon);
  std::vector<std::string_view> names;
  for (const KindName& kind : kinds()) names.push_back(kind.name);
  const auto found = std::ranges::find(kinds(), name, &KindName::name);
  require(found != kinds().end(), "--straggler '{}': unknown kind '{}'; the kinds are {}.{}", text,
          name, fmt::join(names, ", "), suggest(name, names));
  Straggler straggler;
  straggler.kind = found->kind;
  if (colon != std::string_view::npos) {
    for (const std::string_view entry : split_list(text.substr(colon + 1))) {
      const auto equals = entry.find('=');
      require(equals != std::string_view::npos, "--straggler '{}': '{}' must be key=value", text,
              entry);
      set_key(straggler, *found, text, entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  require(straggler.kind != Kind::empirical || !straggler.factors.empty(),
          "--straggler '{}': needs file=PATH, a file with one factor a line", text);
  return straggler;
}

double Straggler::draw(std::uint64_t seed, int run, Rank rank, int step) const {
  const std::uint64_t bits = random_bits(seed, run, rank, step);
  switch (kind) {
    case Kind::none:
      return 1;
    case Kind::random:
      return uniform(bits) < probability ? factor : 1;
    case Kind::lognormal:
      return std::exp(sigma * standard_normal(bits));
    case Kind::gamma: {
      Stream stream(bits);
      return gamma_factor(stream, shape);
    }
    case Kind::empirical: {
      const auto place =
          static_cast<std::size_t>(uniform(bits) * static_cast<double>(factors.size()));
      return factors[std::min(place, factors.size() - 1)];
    }
  }
  return 1;
}

namespace {

std::vector<Rank> ranks_of_stages(const TaskGraph& graph, int stages) {
  std::vector<Rank> ranks;
  for (const Stage k : up_to<Stage>(stages)) ranks.push_back(graph.rank_of(k));
  return ranks;
}

}  // namespace

StragglerCosts::StragglerCosts(const StageCosts& costs, const TaskGraph& graph,
                               std::vector<double> slow, Straggler straggler, std::uint64_t seed,
                               int run)
    : StragglerCosts(costs, ranks_of_stages(graph, costs.table()->stages()), std::move(slow),
                     std::move(straggler), seed, run) {}

StragglerCosts::StragglerCosts(const StageCosts& costs, std::vector<Rank> rank_of_stage,
                               std::vector<double> slow, Straggler straggler, std::uint64_t seed,
                               int run)
    : traffic_(costs.traffic()),
      table_(*costs.table()),
      overlap_(costs.times().overlap),
      rank_of_stage_(std::move(rank_of_stage)),
      slow_(std::move(slow)),
      straggler_(std::move(straggler)),
      seed_(seed),
      run_(run) {
  for (const Stage k : up_to<Stage>(straggler_.random() ? 0 : table_.stages())) {
    for (int op = 0; is_compute(static_cast<Op>(op)); ++op) {
      const Op each = static_cast<Op>(op);
      table_.set(each, k, stretched(table_.at(each, k), slow_[rank_of_stage_[k.value].value]));
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
