// Shapes of transformers by name and from JSON, every fault with its place.
#include <nlohmann/json.hpp>
#include <span>

#include "models/json_value.h"
#include "models/model_file.h"
#include "models/shipped_models.h"
#include "models/specification.h"
#include "models/transformer.h"
#include "schedules/error.h"

namespace unlatch::models {
namespace {

constexpr int most = 1 << 24;
constexpr int most_layers = 1 << 16;

/// Of an optional key.
int whole_or(const JsonValue& file, const char* key, int otherwise, int largest) {
  return file.has(key) ? file.at(key).whole(1, largest) : otherwise;
}

bool yes_or(const JsonValue& file, const char* key, bool otherwise) {
  return file.has(key) ? file.at(key).yes() : otherwise;
}

/// Whether an optional key is the second of two words.
bool is_second(const JsonValue& file, const char* key, std::string_view first,
               std::string_view second) {
  return file.has(key) && file.at(key).word({first, second}) == second;
}

void require_divides(const JsonValue& place, int part, std::string_view whole_name, int whole) {
  require(whole % part == 0, "{}: {} does not divide the {} {}", place.place(), part, whole_name,
          whole);
}

bool is_file(std::string_view name) { return name.ends_with(".json"); }

std::string_view name_of(std::string_view specification) {
  return specification.substr(0, specification.find(':'));
}

const ShippedModel* shipped(std::string_view name) {
  for (const ShippedModel& model : shipped_models()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

void set_sequence(TransformerShape& shape, const Specification& given) {
  shape.sequence = given.whole("sequence", shape.sequence, 1, most);
  require(shape.positions == 0 || shape.sequence <= shape.positions,
          "model {}: a sequence of {} tokens, but it has {} learned positions", shape.name,
          shape.sequence, shape.positions);
}

}  // namespace

TransformerShape parse_transformer(const std::string& text, const std::string& place) {
  const nlohmann::json json = parse_json(text, place);
  const JsonValue file(json, place);
  file.require_object({"name", "source", "layers", "width", "heads", "kv_heads", "mlp_width", "mlp",
                       "norm", "biases", "dropout", "sequence", "positions", "vocabulary", "head"});
  TransformerShape shape;
  shape.name = file.at("name").text();
  if (file.has("source")) file.at("source").text();
  shape.layers = file.at("layers").whole(1, most_layers);
  constexpr int most_width = 1 << 20;
  shape.width = file.at("width").whole(1, most_width);
  shape.heads = file.at("heads").whole(1, most_width);
  require_divides(file.at("heads"), shape.heads, "width", shape.width);
  shape.kv_heads = whole_or(file, "kv_heads", shape.heads, most_width);
  if (file.has("kv_heads"))
    require_divides(file.at("kv_heads"), shape.kv_heads, "heads", shape.heads);
  shape.mlp_width = whole_or(file, "mlp_width", 4 * shape.width, 4 * most_width);
  shape.gated = is_second(file, "mlp", "plain", "gated");
  shape.layer_norm = !is_second(file, "norm", "layer", "rms");
  shape.biases = yes_or(file, "biases", true);
  shape.dropout = yes_or(file, "dropout", true);
  shape.sequence = file.at("sequence").whole(1, most);
  shape.positions = is_second(file, "positions", "learned", "rotary") ? 0 : shape.sequence;
  shape.vocabulary = file.at("vocabulary").whole(2, most);
  shape.tied = !is_second(file, "head", "tied", "untied");
  return shape;
}

bool names_transformer(std::string_view specification) {
  const std::string_view name = name_of(specification);
  return is_file(name) ? !names_model_file(name) : shipped(name) != nullptr;
}

std::vector<std::string_view> transformer_names() {
  std::vector<std::string_view> names;
  for (const ShippedModel& model : shipped_models()) names.push_back(model.name);
  return names;
}

TransformerShape make_transformer(std::string_view specification,
                                  std::string (*read)(const std::string& path)) {
  const Specification given("model", specification);
  if (!is_file(given.name())) given.allow_names(transformer_names());
  given.refuse_argument();
  given.allow_keys({"sequence", "attention"});
  const ShippedModel* known = shipped(given.name());
  TransformerShape shape = known ? parse_transformer(std::string(known->json), given.name())
                                 : parse_transformer(read(given.name()), given.name());
  set_sequence(shape, given);
  const std::string attention = given.word("attention", {"full", "selective", "flash"});
  shape.attention = attention == "flash"       ? Attention::flash
                    : attention == "selective" ? Attention::selective
                                               : Attention::full;
  return shape;
}

}  // namespace unlatch::models
