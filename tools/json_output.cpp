#include "tools/json_output.h"

#include <cmath>

#include "tools/terminal.h"

namespace unlatch::tools {

void print_json(const Json& document) {
  print(document.dump(-1, ' ', false, Json::error_handler_t::replace));
  print("\n");
}

Json parameters_json(const Options& options) {
  Json json = Json::object();
  for (const auto& [key, value] : options.all()) {
    std::visit([&json, &key = key](const auto& v) { json[key] = v; }, value);
  }
  return json;
}

void add_shape(Json& json, const Shape& shape) {
  json["stages"] = shape.stages_a_copy();
  json["ranks"] = shape.ranks();
  if (shape.replicas > 1) json["replicas"] = shape.replicas;
  json["microbatches"] = shape.micro_batches / shape.replicas;
  json["batches"] = shape.batches;
}

Json number_json(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

}  // namespace unlatch::tools
