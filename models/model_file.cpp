#include "models/model_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "models/byte_source.h"
#include "models/json_value.h"
#include "models/overloaded.h"
#include "models/specification.h"
#include "schedules/error.h"

namespace unlatch::models {
namespace {

constexpr int most = 1 << 20;

std::string text_of(const std::string& path) {
  std::error_code error;
  require(std::filesystem::exists(path, error), "cannot read '{}': there is no such file", path);
  require(!std::filesystem::is_fifo(path, error),
          "cannot read '{}': it is a pipe, and a model is read more than once; give a file", path);
  const std::vector<std::uint8_t> bytes = ByteSource::open(path).read_all();
  return {bytes.begin(), bytes.end()};
}

/// Values of optional keys.
int whole_or(const JsonValue& layer, const char* key, int otherwise, int least) {
  return layer.has(key) ? layer.at(key).whole(least, most) : otherwise;
}
double number_or(const JsonValue& layer, const char* key, double otherwise) {
  return layer.has(key) ? layer.at(key).number(0, 1) : otherwise;
}
bool yes_or(const JsonValue& layer, const char* key, bool otherwise) {
  return layer.has(key) ? layer.at(key).yes() : otherwise;
}

Convolution convolution(const JsonValue& layer) {
  const Convolution usual;
  return {.out_channels = layer.at("channels").whole(1, most),
          .kernel = whole_or(layer, "kernel", usual.kernel, 1),
          .stride = whole_or(layer, "stride", usual.stride, 1),
          .padding = whole_or(layer, "padding", usual.padding, 0),
          .bias = yes_or(layer, "bias", usual.bias),
          .groups = whole_or(layer, "groups", usual.groups, 1)};
}

BatchNorm batch_norm(const JsonValue& layer) {
  const BatchNorm usual;
  return {.momentum = number_or(layer, "momentum", usual.momentum),
          .epsilon = number_or(layer, "epsilon", usual.epsilon)};
}

MaxPool max_pool(const JsonValue& layer) {
  const MaxPool usual;
  return {.kernel = whole_or(layer, "kernel", usual.kernel, 1),
          .stride = whole_or(layer, "stride", usual.stride, 1),
          .padding = whole_or(layer, "padding", usual.padding, 0)};
}

Linear linear(const JsonValue& layer) {
  const bool tied = yes_or(layer, "tied", false);
  return {.out_features = layer.at("features").whole(1, most),
          .bias = yes_or(layer, "bias", !tied),
          .tied = tied};
}

Dropout dropout(const JsonValue& layer) {
  const double probability = layer.at("probability").number(0, 1);
  require(probability < 1, "{}: must be below 1, or nothing would be left",
          layer.at("probability").place());
  return {.probability = probability};
}

using Names = std::set<std::string>;
void append_layers(std::vector<Layer>& layers, Names& names, const JsonValue& list);

/// The two branches put their names behind the same one.
Residual residual(const JsonValue& layer) {
  Residual residual;
  Names names;
  append_layers(residual.body, names, layer.at("body"));
  const bool has_shortcut = layer.has("shortcut") && !layer.at("shortcut").is_empty_list();
  if (has_shortcut) append_layers(residual.shortcut, names, layer.at("shortcut"));
  return residual;
}

struct Kind {
  std::string_view name;
  std::vector<std::string_view> keys;  ///< beside "name" and "kind"
  decltype(Layer::kind) (*read)(const JsonValue& layer);
};

const std::vector<Kind>& kinds() {
  using Any = decltype(Layer::kind);
  static const std::vector<Kind> all = {
      {"convolution",
       {"channels", "kernel", "stride", "padding", "bias", "groups"},
       [](const JsonValue& layer) -> Any { return convolution(layer); }},
      {"batch_norm",
       {"momentum", "epsilon"},
       [](const JsonValue& layer) -> Any { return batch_norm(layer); }},
      {"relu", {}, [](const JsonValue&) -> Any { return Relu{}; }},
      {"max_pool",
       {"kernel", "stride", "padding"},
       [](const JsonValue& layer) -> Any { return max_pool(layer); }},
      {"global_average_pool", {}, [](const JsonValue&) -> Any { return GlobalAveragePool{}; }},
      {"linear",
       {"features", "bias", "tied"},
       [](const JsonValue& layer) -> Any { return linear(layer); }},
      {"dropout", {"probability"}, [](const JsonValue& layer) -> Any { return dropout(layer); }},
      {"residual",
       {"body", "shortcut"},
       [](const JsonValue& layer) -> Any { return residual(layer); }},
      {"embedding",
       {"vocabulary", "width"},
       [](const JsonValue& layer) -> Any {
         return Embedding{.vocabulary = layer.at("vocabulary").whole(1, most),
                          .width = layer.at("width").whole(1, most)};
       }},
      {"layer_norm",
       {"epsilon"},
       [](const JsonValue& layer) -> Any {
         return LayerNorm{.epsilon = number_or(layer, "epsilon", LayerNorm{}.epsilon)};
       }},
      {"gelu", {}, [](const JsonValue&) -> Any { return Gelu{}; }},
      {"causal_self_attention",
       {"heads"},
       [](const JsonValue& layer) -> Any {
         return CausalSelfAttention{.heads = layer.at("heads").whole(1, most)};
       }},
  };
  return all;
}

Layer layer_of(const JsonValue& json) {
  std::vector<std::string_view> names;
  for (const Kind& kind : kinds()) names.push_back(kind.name);
  const std::string name = json.at("kind").word(names);
  const Kind& kind = *std::ranges::find(kinds(), std::string_view(name), &Kind::name);
  std::vector<std::string_view> keys{"name", "kind"};
  keys.insert(keys.end(), kind.keys.begin(), kind.keys.end());
  json.require_object(keys);
  return {json.at("name").text(), kind.read(json)};
}

void append_layers(std::vector<Layer>& layers, Names& names, const JsonValue& list) {
  for (const JsonValue& json : list.list()) {
    layers.push_back(layer_of(json));
    require(names.insert(layers.back().name).second,
            "{}: '{}' is given twice; weights are saved under the names of their layers",
            json.at("name").place(), layers.back().name);
  }
}

SampleShape input_of(const JsonValue& file) {
  constexpr int longest = 1 << 16;
  require(file.has("input") != file.has("tokens"),
          "{}: needs either 'input', [channels, height, width] of images, or 'tokens', the length "
          "of a text",
          file.place());
  if (file.has("tokens")) return {file.at("tokens").whole(1, longest), 1, 1, true};
  const std::vector<JsonValue> sides = file.at("input").list();
  require(sides.size() == 3, "{}: must be [channels, height, width], not {} numbers",
          file.at("input").place(), sides.size());
  return {sides[0].whole(1, longest), sides[1].whole(1, longest), sides[2].whole(1, longest)};
}

/// The names of its layers are in the messages.
SampleShape logits_of(const Model& model, const std::string& place) {
  try {
    return model.shapes().back();
  } catch (const Error& error) {
    fail("{}: {}", place, error.what());
  }
}

// ---- writing -----------------------------------------------------------------------------------

using Json = nlohmann::ordered_json;

void put(Json& json, const Convolution& c) {
  json.update({{"kind", "convolution"},
               {"channels", c.out_channels},
               {"kernel", c.kernel},
               {"stride", c.stride},
               {"padding", c.padding},
               {"bias", c.bias},
               {"groups", c.groups}});
}

std::string list_of(const std::vector<Layer>& layers, const std::string& margin);

std::string text_of(const Layer& layer, const std::string& margin) {
  Json json{{"name", layer.name}};
  std::string branches;
  std::visit(
      Overloaded{
          [&](const Convolution& c) { put(json, c); },
          [&](const BatchNorm& norm) {
            json.update(
                {{"kind", "batch_norm"}, {"momentum", norm.momentum}, {"epsilon", norm.epsilon}});
          },
          [&](const Relu&) { json["kind"] = "relu"; },
          [&](const MaxPool& pool) {
            json.update({{"kind", "max_pool"},
                         {"kernel", pool.kernel},
                         {"stride", pool.stride},
                         {"padding", pool.padding}});
          },
          [&](const GlobalAveragePool&) { json["kind"] = "global_average_pool"; },
          [&](const Linear& l) {
            json.update({{"kind", "linear"}, {"features", l.out_features}, {"bias", l.bias}});
            if (l.tied) json["tied"] = true;
          },
          [&](const Dropout& d) {
            json.update({{"kind", "dropout"}, {"probability", d.probability}});
          },
          [&](const Residual& r) {
            json["kind"] = "residual";
            branches =
                fmt::format(", \"body\": {}, \"shortcut\": {}", list_of(r.body, margin + "  "),
                            list_of(r.shortcut, margin + "  "));
          },
          [&](const Embedding& e) {
            json.update({{"kind", "embedding"}, {"vocabulary", e.vocabulary}, {"width", e.width}});
          },
          [&](const LayerNorm& norm) {
            json.update({{"kind", "layer_norm"}, {"epsilon", norm.epsilon}});
          },
          [&](const Gelu&) { json["kind"] = "gelu"; },
          [&](const CausalSelfAttention& a) {
            json.update({{"kind", "causal_self_attention"}, {"heads", a.heads}});
          },
      },
      layer.kind);
  std::string text = json.dump();
  text.insert(text.size() - 1, branches);
  return text;
}

std::string list_of(const std::vector<Layer>& layers, const std::string& margin) {
  std::vector<std::string> lines;
  for (const Layer& layer : layers) lines.push_back(margin + text_of(layer, margin));
  return lines.empty() ? "[]" : fmt::format("[\n{}]", fmt::join(lines, ",\n"));
}

void number(std::vector<Layer>& layers, int& next) {
  for (Layer& layer : layers) {
    if (auto* dropout = std::get_if<Dropout>(&layer.kind)) dropout->number = next++;
    auto* residual = std::get_if<Residual>(&layer.kind);
    if (residual == nullptr) continue;
    number(residual->body, next);
    number(residual->shortcut, next);
  }
}

/// Whose layers are counted, and all alike. What is neither is a model file with a fault.
bool is_transformer_shape(const nlohmann::json& json) {
  if (!json.is_object()) return false;
  const auto layers = json.find("layers");
  if (layers != json.end() && (layers->is_number() || layers->is_array())) {
    return layers->is_number();
  }
  return json.contains("width") || json.contains("heads");
}

}  // namespace

bool names_model_file(std::string_view specification) {
  const std::string path(specification.substr(0, specification.find(':')));
  if (!path.ends_with(".json")) return false;
  const nlohmann::json json = parse_json(text_of(path), path);
  return !is_transformer_shape(json);
}

Model parse_model(const std::string& text, const std::string& place) {
  const nlohmann::json json = parse_json(text, place);
  const JsonValue file(json, place);
  file.require_object({"name", "input", "tokens", "layers"});
  Model model{.name = file.at("name").text(), .input = input_of(file), .classes = 0, .layers = {}};
  Names names;
  append_layers(model.layers, names, file.at("layers"));
  const SampleShape logits = logits_of(model, place);
  const bool is_vector = logits.is_sequence || (logits.height == 1 && logits.width == 1);
  require(
      is_vector && logits.features() >= 2,
      "{}: its last layer gives {}x{}x{} numbers; it must give a vector, a number for each of 2 "
      "or more classes",
      place, logits.channels, logits.height, logits.width);
  model.classes = static_cast<int>(logits.features());
  number_dropouts(model);
  return model;
}

Model read_model(const std::string& path) { return parse_model(text_of(path), path); }

std::string model_json(const Model& model) {
  const SampleShape& input = model.input;
  const std::string shape =
      input.is_sequence
          ? fmt::format("\"tokens\": {}", input.channels)
          : fmt::format("\"input\": [{}, {}, {}]", input.channels, input.height, input.width);
  return fmt::format("{{\"name\": {}, {}, \"layers\": {}}}\n", Json(model.name).dump(), shape,
                     list_of(model.layers, "  "));
}

void number_dropouts(Model& model) {
  int next = 0;
  number(model.layers, next);
}

}  // namespace unlatch::models
