#include "tools/profile_file.h"

#include <algorithm>
#include <limits>

#include "models/json_value.h"
#include "schedules/error.h"
#include "schedules/suggest.h"
#include "tools/measurement_json.h"
#include "tools/profile_checks.h"
#include "traces/input_file.h"

namespace unlatch::tools {
namespace {

using models::JsonValue;

constexpr std::int64_t most_bytes = std::int64_t{1} << 53;
constexpr int most_whole = std::numeric_limits<int>::max();

Json to_json(const exec::LayerCost& layer) {
  Json json{{"name", layer.name},
            {"forward_us", time_json(layer.forward)},
            {"forward_only_us", time_json(layer.forward_only)},
            {"backward_us", time_json(layer.backward)},
            {"input_gradient_us", time_json(layer.input_gradient)},
            {"weight_gradient_us", time_json(layer.weight_gradient)},
            {"update_us", time_json(layer.update)},
            {"output_bytes", layer.output_bytes},
            {"tape_bytes", layer.tape_bytes},
            {"weight_grad_activation_bytes", layer.weight_grad_activation_bytes},
            {"parameter_bytes", layer.parameter_bytes}};
  if (layer.tied) json["tied"] = true;
  return json;
}

exec::LayerCost read_layer(const JsonValue& layer) {
  layer.require_object({"name", "forward_us", "forward_only_us", "backward_us", "input_gradient_us",
                        "weight_gradient_us", "update_us", "output_bytes", "tape_bytes",
                        "weight_grad_activation_bytes", "parameter_bytes", "tied"});
  const auto bytes = [&](const char* key) {
    return static_cast<std::size_t>(layer.at(key).long_whole(0, most_bytes));
  };
  return {.name = layer.at("name").text(),
          .forward = read_time(layer.at("forward_us")),
          .forward_only = read_time(layer.at("forward_only_us")),
          .backward = read_time(layer.at("backward_us")),
          .input_gradient = read_time(layer.at("input_gradient_us")),
          .weight_gradient = read_time(layer.at("weight_gradient_us")),
          .update = read_time(layer.at("update_us")),
          .output_bytes = bytes("output_bytes"),
          .tape_bytes = bytes("tape_bytes"),
          .weight_grad_activation_bytes = bytes("weight_grad_activation_bytes"),
          .parameter_bytes = bytes("parameter_bytes"),
          .tied = layer.has("tied") && layer.at("tied").yes()};
}

Json to_json(const exec::LayerProfile& profile) {
  Json json{{"batch_size", profile.micro_batch_size},
            {"workers", profile.workers},
            {"optimizer", profile.optimizer},
            {"optimizer_slots", profile.optimizer_slots},
            {"samples", profile.samples},
            {"left_out", profile.left_out}};
  json["layers"] = Json::array();
  for (const exec::LayerCost& layer : profile.layers) json["layers"].push_back(to_json(layer));
  json["input_us"] = time_json(profile.input);
  json["target_us"] = time_json(profile.target);
  json["loss_us"] = time_json(profile.loss);
  json["overhead_us"] = time_json(profile.overhead);
  json["step_us"] = time_json(profile.step);
  return json;
}

std::string read_optimizer(const JsonValue& value) {
  std::string name = value.text();
  const auto known = models::optimizer_names();
  require(std::ranges::find(known, name) != known.end(),
          "{}: unknown optimizer '{}'; known are {}.{}", value.place(), name,
          fmt::join(known, ", "), suggest(name, known));
  return name;
}

/// Older files have none.
int read_slots(const JsonValue& profile) {
  constexpr int most_slots = 16;
  if (profile.has("optimizer_slots")) return profile.at("optimizer_slots").whole(0, most_slots);
  return models::OptimizerSpec::parse(profile.at("optimizer").text()).slots();
}

std::vector<exec::LayerCost> read_layers(const JsonValue& list) {
  std::vector<exec::LayerCost> layers;
  for (const JsonValue& value : list.list()) {
    exec::LayerCost layer = read_layer(value);
    const auto same = std::ranges::find(layers, layer.name, &exec::LayerCost::name);
    require(same == layers.end(), "{}: '{}' is also the name of layer {}", value.at("name").place(),
            layer.name, same - layers.begin());
    layers.push_back(std::move(layer));
  }
  return layers;
}

exec::LayerProfile read_one(const JsonValue& json, const std::string& model) {
  json.require_object({"batch_size", "workers", "optimizer", "optimizer_slots", "samples",
                       "left_out", "layers", "input_us", "target_us", "loss_us", "overhead_us",
                       "step_us"});
  return {.model = model,
          .optimizer = read_optimizer(json.at("optimizer")),
          .optimizer_slots = read_slots(json),
          .micro_batch_size = json.at("batch_size").whole(1, most_whole),
          .workers = json.at("workers").whole(1, most_whole),
          .samples = json.at("samples").whole(1, most_whole),
          .left_out = json.at("left_out").whole(0, most_whole),
          .layers = read_layers(json.at("layers")),
          .input = read_time(json.at("input_us")),
          .target = read_time(json.at("target_us")),
          .loss = read_time(json.at("loss_us")),
          .overhead = read_time(json.at("overhead_us")),
          .step = read_time(json.at("step_us"))};
}

Json to_json(const std::map<int, std::vector<exec::HandoverCost>>& handovers) {
  Json all = Json::array();
  for (const auto& [size, costs] : handovers) {
    Json layers = Json::array();
    for (const exec::HandoverCost& cost : costs) {
      layers.push_back({{"forward_in_us", cost.forward_in / ns_per_us},
                        {"forward_out_us", cost.forward_out / ns_per_us},
                        {"backward_in_us", cost.backward_in / ns_per_us},
                        {"backward_out_us", cost.backward_out / ns_per_us}});
    }
    all.push_back({{"batch_size", size}, {"layers", std::move(layers)}});
  }
  return all;
}

std::vector<exec::HandoverCost> read_handover(const JsonValue& list) {
  std::vector<exec::HandoverCost> costs;
  for (const JsonValue& layer : list.list()) {
    layer.require_object({"forward_in_us", "forward_out_us", "backward_in_us", "backward_out_us"});
    const auto ns = [&](const char* key) { return read_us(layer.at(key)) * ns_per_us; };
    costs.push_back({.forward_in = ns("forward_in_us"),
                     .forward_out = ns("forward_out_us"),
                     .backward_in = ns("backward_in_us"),
                     .backward_out = ns("backward_out_us")});
  }
  return costs;
}

/// For every size that was measured; files of GPUs, and those of old, have none.
void read_handovers(const JsonValue& all, ProfileFile& file) {
  for (const JsonValue& one : all.list()) {
    one.require_object({"batch_size", "layers"});
    const JsonValue size = one.at("batch_size"), layers = one.at("layers");
    const int samples = size.whole(1, most_whole);
    require(!file.handovers.contains(samples), "{}: {} is there twice", size.place(), samples);
    const bool known =
        std::ranges::find(file.profiles, samples, &exec::LayerProfile::micro_batch_size) !=
        file.profiles.end();
    require(known, "{}: none of the 'profiles' is of batch size {}", size.place(), samples);
    const auto& costs = file.handovers[samples] = read_handover(layers);
    require(costs.size() == file.profiles.front().layers.size(),
            "{}: {} layers, but profiles[0] has {}", layers.place(), costs.size(),
            file.profiles.front().layers.size());
  }
  for (const exec::LayerProfile& profile : file.profiles) {
    require(file.handovers.contains(profile.micro_batch_size), "{}: there is no 'batch_size' {}",
            all.place(), profile.micro_batch_size);
  }
}

/// "cpu", or the name of a GPU, of whose files each has a precision and none has handovers or
/// workers. Files of old have no device.
void read_device(const JsonValue& json, ProfileFile& file) {
  if (json.has("device")) file.device = json.at("device").text();
  if (json.has("precision")) {
    const auto& names = exec::precision_names;
    const std::string word = json.at("precision").word({names.begin(), names.end()});
    file.precision = static_cast<exec::Precision>(std::ranges::find(names, word) - names.begin());
  }
  if (file.of_cpu()) {
    require(file.precision == exec::Precision::fp32, "{}: a CPU computes in fp32", json.place());
    return;
  }
  require(json.has("precision") && !json.has("handovers"),
          "{}: '{}' is neither 'cpu' nor the name of a GPU, whose profiles have a 'precision' and "
          "no 'handovers'",
          json.at("device").place(), file.device);
}

ProfileFile read_document(const JsonValue& json) {
  json.require_object(
      {"model", "data", "device", "precision", "sample_bytes", "profiles", "handovers"});
  ProfileFile file{.model = json.at("model").text(),
                   .data = json.at("data").text(),
                   .sample_bytes = json.at("sample_bytes").long_whole(1, most_bytes),
                   .profiles = {}};
  constexpr std::int64_t float_bytes = sizeof(float);
  require(file.sample_bytes % float_bytes == 0, "{}: {} are no whole floats of {} bytes",
          json.at("sample_bytes").place(), file.sample_bytes, float_bytes);
  read_device(json, file);
  for (const JsonValue& place : json.at("profiles").list()) {
    exec::LayerProfile profile = read_one(place, file.model);
    require_fits_others(place, profile, file.profiles);
    require_consistent(place, profile, file.sample_bytes);
    if (file.of_cpu()) {
      require_times_of_cpu(place, profile);
    } else {
      require(profile.workers == 1, "{}: {}, but a GPU has 1", place.at("workers").place(),
              profile.workers);
    }
    file.profiles.push_back(std::move(profile));
  }
  if (json.has("handovers")) read_handovers(json.at("handovers"), file);
  return file;
}

}  // namespace

Json to_json(const ProfileFile& file) {
  Json json{{"model", file.model},
            {"data", file.data},
            {"device", file.device},
            {"sample_bytes", file.sample_bytes},
            {"profiles", Json::array()}};
  if (file.of_cpu()) {
    json["handovers"] = to_json(file.handovers);
  } else {
    json["precision"] = exec::name(file.precision);
  }
  for (const exec::LayerProfile& profile : file.profiles) {
    json["profiles"].push_back(to_json(profile));
  }
  return json;
}

ProfileFile read_profile(const std::string& path) {
  const std::string place = fmt::format("profile '{}'", path);
  const std::string text = read_text(path);
  try {
    const nlohmann::json json = models::parse_json(text, place);
    require(!json.is_object() || !json.contains("stages") || json.contains("model"),
            "{}: it holds the costs of stages, for simulate and compare; one of layers is needed "
            "here, made by 'unlatch profile --model'",
            place);
    return read_document({json, place});
  } catch (const Error& wrong) {
    fail("{} (not as 'unlatch profile' wrote it)", wrong.what());
  }
}

}  // namespace unlatch::tools
