// The "learning" object of the native form: what a method computes beyond what its tasks say.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "schedules/graph.h"
#include "schedules/learning.h"

namespace unlatch::files {

/// Only what differs from a plain schedule; `loss_scale` always.
nlohmann::json learning_json(const Learning& learning);

/// Throws Error for unknown keys, words and values out of range. What is not said stays as it is in
/// `plain`.
Learning read_learning(const nlohmann::json& json, const Shape& shape, Learning plain);

}  // namespace unlatch::files
