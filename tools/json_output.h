// JSON output: the documents that --json prints, with the keys and units of the contract.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "schedules/registry.h"
#include "traces/timeline.h"

namespace unlatch::tools {

using Json = nlohmann::ordered_json;

/// Prints one document and a newline. Text that is not UTF-8 is replaced by U+FFFD.
void print_json(const Json& document);

/// Every key with its resolved value.
Json parameters_json(const Options& options);
/// Adds "stages", "ranks", "microbatches" and "batches".
void add_shape(Json& json, const Shape& shape);
/// null for a value that is undefined.
Json number_json(std::optional<double> value);

}  // namespace unlatch::tools
