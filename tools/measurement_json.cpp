#include "tools/measurement_json.h"

#include <algorithm>
#include <cmath>

#include "schedules/error.h"

namespace unlatch::tools {
namespace {

using models::JsonValue;

struct Part {
  const char* key;
  std::int64_t exec::Measurement::*ns;
};
constexpr Part parts[] = {{"mean", &exec::Measurement::mean_ns},
                          {"median", &exec::Measurement::median_ns},
                          {"lower", &exec::Measurement::lower_ns},
                          {"upper", &exec::Measurement::upper_ns}};

double in_us(std::int64_t ns) { return static_cast<double>(ns) / ns_per_us; }

constexpr std::int64_t rounding_ns = 1;  // each part is rounded by itself

}  // namespace

Json time_json(const exec::Measurement& time) {
  Json json;
  for (const Part& part : parts) json[part.key] = in_us(time.*part.ns);
  return json;
}

double read_us(const JsonValue& value) {
  constexpr double most_us = 1e12;
  return value.number(0, most_us);
}

exec::Measurement read_measurement(const JsonValue& value) {
  exec::Measurement time;
  for (const Part& part : parts) {
    time.*part.ns = std::llround(read_us(value.at(part.key)) * ns_per_us);
  }
  require(time.lower_ns <= time.median_ns && time.median_ns <= time.upper_ns,
          "{}: lower {}, median {} and upper {} are not in this order", value.place(),
          in_us(time.lower_ns), in_us(time.median_ns), in_us(time.upper_ns));
  return time;
}

exec::Measurement read_time(const JsonValue& value) {
  value.require_object({"mean", "median", "lower", "upper"});
  return read_measurement(value);
}

void require_mean_of_times(const JsonValue& place, const exec::Measurement& time, int samples) {
  require(2 * (time.mean_ns + rounding_ns) >= time.median_ns,
          "{}: {} is less than half of the median, {}; no times have such a mean",
          place.at("mean").place(), in_us(time.mean_ns), in_us(time.median_ns));
  constexpr int few = 4;
  constexpr std::int64_t times_of_few = 4, times_of_many = 100'000, least_ns = 1000;
  const std::int64_t most = samples <= few ? times_of_few * (time.upper_ns + rounding_ns)
                                           : times_of_many * std::max(time.upper_ns, least_ns);
  require(time.mean_ns <= most,
          "{}: {} is more than {} times the upper quartile, {}; no {} times have such a mean",
          place.at("mean").place(), in_us(time.mean_ns),
          samples <= few ? times_of_few : times_of_many, in_us(time.upper_ns), samples);
}

void require_no_longer(const JsonValue& part_place, const exec::Measurement& part,
                       const JsonValue& whole_place, const exec::Measurement& whole) {
  for (const Part& of : parts) {
    require(part.*of.ns <= whole.*of.ns + rounding_ns,
            "{}: {} is more than the {} of {}, a part of which it is",
            part_place.at(of.key).place(), in_us(part.*of.ns), in_us(whole.*of.ns),
            whole_place.at(of.key).place());
  }
}

}  // namespace unlatch::tools
