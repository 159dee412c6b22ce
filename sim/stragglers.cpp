#include "sim/stragglers.h"

#include <algorithm>
#include <cmath>

#include "schedules/error.h"
#include "schedules/suggest.h"
#include "sim/random_bits.h"
#include "sim/units.h"
#include "traces/input_file.h"

namespace unlatch::sim {

namespace {

constexpr double largest_factor = 1e6;

std::uint64_t random_bits(std::uint64_t seed, int run, StragglerPlace place, int step) {
  const std::uint64_t where = static_cast<std::uint64_t>(static_cast<std::uint32_t>(place.from))
                                  << 32 |
                              static_cast<std::uint32_t>(step);
  const std::uint64_t bits = mixed(mixed(mixed(seed) ^ static_cast<std::uint32_t>(run)) ^ where);
  if (place.to == StragglerPlace::none) return bits;
  return mixed(bits ^ static_cast<std::uint32_t>(place.to));
}

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
  static const std::vector<KindName> all{
      {"random", Kind::random, {"probability", "factor", "on", "node"}},
      {"lognormal", Kind::lognormal, {"sigma", "on", "node"}},
      {"gamma", Kind::gamma, {"shape", "on", "node"}},
      {"empirical", Kind::empirical, {"file", "on", "node"}},
      {"pause", Kind::pause, {"every", "time", "on", "node"}}};
  return all;
}

Straggler::On parse_on(std::string_view place, std::string_view value) {
  const std::vector<std::string_view> names{"ranks", "nodes", "links"};
  const auto found = std::ranges::find(names, value);
  require(found != names.end(), "{}: on '{}': must be {}.{}", place, value, fmt::join(names, ", "),
          suggest(value, names));
  return static_cast<Straggler::On>(found - names.begin());
}

void set_key(Straggler& straggler, const KindName& kind, std::string_view place,
             std::string_view key, std::string_view value) {
  require(std::ranges::find(kind.keys, key) != kind.keys.end(),
          "{}: unknown key '{}'; the keys are {}.{}", place, key, fmt::join(kind.keys, ", "),
          suggest(key, kind.keys));
  const std::string setting = fmt::format("{}: {}", place, key);
  const auto positive = [&](double most) { return parse_positive(setting, value, most); };
  const auto duration = [&] {
    const nanoseconds t = parse_duration(setting, value);
    require(t > nanoseconds{0}, "{} '{}': must be longer than 0", setting, value);
    return t;
  };
  constexpr int most_ranks = 1 << 20;
  if (key == "sigma") straggler.sigma = parse_number(setting, value, 0, 5);
  if (key == "probability") straggler.probability = parse_number(setting, value, 0, 1);
  if (key == "factor") straggler.factor = positive(largest_factor);
  if (key == "shape") straggler.shape = parse_number(setting, value, 0.01, 1e9);
  if (key == "file") straggler.factors = read_factors(std::string(value));
  if (key == "every") straggler.every = duration();
  if (key == "time") straggler.time = duration();
  if (key == "on") straggler.on = parse_on(place, value);
  if (key == "node") {
    straggler.node = static_cast<int>(parse_whole(setting, value, 1, most_ranks));
  }
}

void require_complete(const Straggler& straggler, std::string_view place, bool on_is_said) {
  using Kind = Straggler::Kind;
  require(straggler.kind != Kind::empirical || !straggler.factors.empty(),
          "{}: needs file=PATH, a file with one factor a line", place);
  require(straggler.kind != Kind::pause ||
              (straggler.every > nanoseconds{0} && straggler.time > nanoseconds{0}),
          "{}: needs every=T, how long a rank runs on average until it stands still, "
          "and time=T, how long it does then",
          place);
  require(straggler.node == 0 || !on_is_said || straggler.on == Straggler::On::nodes,
          "{}: node={} is for on=nodes", place, straggler.node);
}

}  // namespace

Straggler Straggler::parse(std::string_view text, std::string_view setting) {
  const std::string place = fmt::format("{} '{}'", setting, text);
  const auto colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  std::vector<std::string_view> names;
  for (const KindName& kind : kinds()) names.push_back(kind.name);
  const auto found = std::ranges::find(kinds(), name, &KindName::name);
  require(found != kinds().end(), "{}: unknown kind '{}'; the kinds are {}.{}", place, name,
          fmt::join(names, ", "), suggest(name, names));
  Straggler straggler;
  straggler.kind = found->kind;
  bool on_is_said = false;
  std::vector<std::string_view> given;
  if (colon != std::string_view::npos) {
    for (const std::string_view entry : split_list(text.substr(colon + 1))) {
      const auto equals = entry.find('=');
      require(equals != std::string_view::npos, "{}: '{}' must be key=value", place, entry);
      const std::string_view key = entry.substr(0, equals);
      require(std::ranges::find(given, key) == given.end(), "{}: {} is given twice", place, key);
      given.push_back(key);
      set_key(straggler, *found, place, key, entry.substr(equals + 1));
      on_is_said = on_is_said || key == "on";
    }
  }
  require_complete(straggler, place, on_is_said);
  if (straggler.node > 0) straggler.on = On::nodes;
  return straggler;
}

double Straggler::draw(std::uint64_t seed, int run, StragglerPlace place, int step) const {
  const std::uint64_t bits = random_bits(seed, run, place, step);
  switch (kind) {
    case Kind::random:
      return uniform(bits) < probability ? factor : 1;
    case Kind::lognormal:
      return std::exp(sigma * standard_normal(bits));
    case Kind::gamma: {
      Stream stream(bits);
      return gamma_factor(stream, shape);
    }
    case Kind::empirical: {
      const auto one_of =
          static_cast<std::size_t>(uniform(bits) * static_cast<double>(factors.size()));
      return factors[std::min(one_of, factors.size() - 1)];
    }
    case Kind::pause:
      break;
  }
  return 1;
}

RandomPauses Straggler::pauses(std::uint64_t seed, int run, StragglerPlace place) const {
  constexpr int no_step = -1;
  return {.every = every, .length = time, .seed = random_bits(seed, run, place, no_step)};
}

}  // namespace unlatch::sim
