// A measured time in the JSON of profiles: mean, median and quartiles in microseconds.
#pragma once

#include "exec/layer_profile.h"
#include "models/json_value.h"
#include "tools/json_output.h"

namespace unlatch::tools {

inline constexpr double ns_per_us = 1e3;

Json time_json(const exec::Measurement& time);

/// A number >= 0. Throws Error with the place.
double read_us(const models::JsonValue& value);
/// The parts of a measurement in `value`, an object that may have other keys. Throws Error with the
/// place of a part that is missing or contradicts the others: no samples have a lower quartile
/// above the median or a median above the upper one.
exec::Measurement read_measurement(const models::JsonValue& value);
/// The same of an object with nothing else.
exec::Measurement read_time(const models::JsonValue& value);
/// Throws Error for a mean below half of the median, which no times >= 0 have: half of them, those
/// in the mean as well, are as long as the median or longer. (Differences of times may be below 0.)
/// Likewise for one above 4 times the upper quartile of up to 4 samples, of which the longest
/// weighs at least a quarter in that quartile, and above 100000 times it (or 1 us) of any number.
void require_mean_of_times(const models::JsonValue& place, const exec::Measurement& time,
                           int samples);
/// Throws Error unless no part of `part` is longer than that of `whole`.
void require_no_longer(const models::JsonValue& part_place, const exec::Measurement& part,
                       const models::JsonValue& whole_place, const exec::Measurement& whole);

}  // namespace unlatch::tools
