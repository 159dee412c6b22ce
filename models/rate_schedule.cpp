#include "models/rate_schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <utility>

#include "models/specification.h"
#include "schedules/error.h"

namespace unlatch::models {
namespace {

using Kind = RateSchedule::Kind;

constexpr double largest = std::numeric_limits<double>::max();
constexpr std::pair<std::string_view, Kind> kinds[] = {{"constant", Kind::constant},
                                                       {"linear", Kind::linear},
                                                       {"step", Kind::step},
                                                       {"cosine", Kind::cosine},
                                                       {"polynomial", Kind::polynomial}};

Kind kind_of(const Specification& given) {
  std::vector<std::string_view> names;
  for (const auto& [name, kind] : kinds) names.push_back(name);
  given.allow_names(names);
  return std::ranges::find(kinds, given.name(), [](const auto& k) { return k.first; })->second;
}

void read_drops(const Specification& given, std::string_view text, RateSchedule& schedule) {
  require(given.has("at"),
          "learning-rate schedule '{}': say after which epochs the rate drops, as in "
          "step:at=60/80,factor=0.1",
          text);
  schedule.at = given.list("at", {}, 1, std::numeric_limits<int>::max());
  require(std::adjacent_find(schedule.at.begin(), schedule.at.end(), std::greater_equal<>()) ==
              schedule.at.end(),
          "learning-rate schedule '{}': the epochs of 'at' must rise", text);
  schedule.factor = given.number("factor", 0.1, 0, largest);
}

void read_warm_up(const Specification& given, std::string_view text, RateSchedule& schedule) {
  require(!given.has("warmup") || !given.has("warmup_epochs"),
          "learning-rate schedule '{}': warmup (batches) and warmup_epochs both say how long the "
          "warm-up is; give one of them",
          text);
  schedule.warm_up = given.whole("warmup", 0, 1, std::numeric_limits<int>::max());
  schedule.warm_up_epochs = given.number("warmup_epochs", 0, 0, 1e6);
  require(!given.has("start") || given.has("warmup") || given.has("warmup_epochs"),
          "learning-rate schedule '{}': 'start' is where a warm-up starts; say how long it is, as "
          "in warmup=500",
          text);
  schedule.start = given.number("start", 0, 0, largest);
}

}  // namespace

RateSchedule RateSchedule::parse(std::string_view text, double rate) {
  require(std::isfinite(rate) && rate > 0, "the learning rate must be above 0, not {}", rate);
  const Specification given("learning-rate schedule", text);
  RateSchedule schedule{.kind = kind_of(given), .rate = rate};
  given.refuse_argument();
  std::vector<std::string_view> keys{"warmup", "warmup_epochs", "start"};
  if (schedule.kind == Kind::step) keys.insert(keys.end(), {"at", "factor"});
  if (schedule.kind == Kind::polynomial) keys.insert(keys.end(), {"power", "end"});
  given.allow_keys(keys);
  if (schedule.kind == Kind::step) read_drops(given, text, schedule);
  schedule.power = given.number("power", 1, 0, largest);
  schedule.end = given.number("end", 0, 0, largest);
  read_warm_up(given, text, schedule);
  return schedule;
}

double RateSchedule::at_batch(int batch, int batches, const BatchSizes& sizes) const {
  require(batch >= 0 && batches >= 1, "learning rate: batch {} of {} is no place in a run", batch,
          batches);
  const double warm =
      warm_up_epochs > 0 ? std::ceil(sizes.batches_of_epochs(warm_up_epochs)) : warm_up;
  if (batch < warm) return rate * (start + (1 - start) * batch / warm);
  const double left = std::max(1.0, batches - warm);
  return after_warm_up(std::min(1.0, (batch - warm) / left), sizes.batch(batch).epoch);
}

double RateSchedule::after_warm_up(double done, int epoch) const {
  switch (kind) {
    case Kind::constant:
      return rate;
    case Kind::linear:
      return rate * (1 - done);
    case Kind::cosine:
      return rate * 0.5 * (1 + std::cos(std::numbers::pi * done));
    case Kind::polynomial:
      return rate * (end + (1 - end) * std::pow(1 - done, power));
    case Kind::step:
      break;
  }
  double dropped = rate;
  for (int drop : at) {
    if (epoch >= drop) dropped *= factor;
  }
  return dropped;
}

}  // namespace unlatch::models
