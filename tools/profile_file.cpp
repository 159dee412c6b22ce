#include "tools/profile_file.h"

#include <algorithm>
#include <limits>

#include "schedules/error.h"
#include "traces/input_file.h"

namespace unlatch::tools {
namespace {

constexpr double ns_per_us = 1e3;

Json time_json(const exec::Measurement& time) {
  return {{"mean", static_cast<double>(time.mean_ns) / ns_per_us},
          {"median", static_cast<double>(time.median_ns) / ns_per_us},
          {"lower", static_cast<double>(time.lower_ns) / ns_per_us},
          {"upper", static_cast<double>(time.upper_ns) / ns_per_us}};
}

const Json& field(const Json& json, const char* key) {
  require(json.is_object() && json.contains(key),
          "it is not one that 'unlatch profile' wrote: there is no '{}'", key);
  return json.at(key);
}

std::string read_name(const Json& json, const char* key) {
  const Json& value = field(json, key);
  require(value.is_string(), "'{}' is {}, it must be a text", key, value.dump());
  return value.get<std::string>();
}

/// Files of a CPU have none.
exec::Precision read_precision(const Json& json) {
  if (!json.contains("precision")) return exec::Precision::fp32;
  const std::string word = read_name(json, "precision");
  const auto found = std::ranges::find(exec::precision_names, word);
  require(found != exec::precision_names.end(), "'precision' is '{}', it must be one of {}", word,
          fmt::join(exec::precision_names, ", "));
  return static_cast<exec::Precision>(found - exec::precision_names.begin());
}

template <class Whole>
Whole read_whole(const Json& json, const char* key, std::int64_t least) {
  constexpr std::int64_t most =
      sizeof(Whole) == sizeof(int) ? std::numeric_limits<int>::max() : std::int64_t{1} << 53;
  const Json& value = field(json, key);
  // What exceeds 63 bits is negative here.
  const std::int64_t whole = value.is_number_integer() ? value.get<std::int64_t>() : least - 1;
  require(whole >= least && whole <= most, "'{}' is {}, it must be a whole number in {}..{}", key,
          value.dump(), least, most);
  return static_cast<Whole>(whole);
}

const Json& read_list(const Json& json, const char* key) {
  const Json& value = field(json, key);
  require(value.is_array() && !value.empty(), "'{}' must be a list that is not empty", key);
  return value;
}

double read_us(const Json& json, const char* key) {
  const Json& value = field(json, key);
  const double us = value.is_number() ? value.get<double>() : -1;
  constexpr double most_us = 1e12;
  require(us >= 0 && us < most_us, "'{}' is {}, it must be a time >= 0", key, value.dump());
  return us;
}

exec::Measurement read_time(const Json& json, const char* key) {
  const Json& time = field(json, key);
  const auto ns = [&](const char* part) {
    try {
      return static_cast<std::int64_t>(read_us(time, part) * ns_per_us + 0.5);
    } catch (const Error& wrong) {
      fail("'{}': {}", key, wrong.what());
    }
  };
  return {.mean_ns = ns("mean"),
          .median_ns = ns("median"),
          .lower_ns = ns("lower"),
          .upper_ns = ns("upper")};
}

Json to_json(const exec::LayerCost& layer) {
  return {{"name", layer.name},
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
}

exec::LayerCost read_layer(const Json& json) {
  return {.name = read_name(json, "name"),
          .forward = read_time(json, "forward_us"),
          .forward_only = read_time(json, "forward_only_us"),
          .backward = read_time(json, "backward_us"),
          .input_gradient = read_time(json, "input_gradient_us"),
          .weight_gradient = read_time(json, "weight_gradient_us"),
          .update = read_time(json, "update_us"),
          .output_bytes = read_whole<std::size_t>(json, "output_bytes", 0),
          .tape_bytes = read_whole<std::size_t>(json, "tape_bytes", 0),
          .weight_grad_activation_bytes =
              read_whole<std::size_t>(json, "weight_grad_activation_bytes", 0),
          .parameter_bytes = read_whole<std::size_t>(json, "parameter_bytes", 0)};
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

/// Older files have none: they were of sgd or of an optimizer with a velocity.
int read_slots(const Json& json) {
  if (json.contains("optimizer_slots")) return read_whole<int>(json, "optimizer_slots", 0);
  return read_name(json, "optimizer") == "sgd" ? 0 : 1;
}

exec::LayerProfile read_one(const Json& json, const std::string& model) {
  exec::LayerProfile profile{.model = model,
                             .optimizer = read_name(json, "optimizer"),
                             .optimizer_slots = read_slots(json),
                             .micro_batch_size = read_whole<int>(json, "batch_size", 1),
                             .workers = read_whole<int>(json, "workers", 1),
                             .samples = read_whole<int>(json, "samples", 1),
                             .left_out = read_whole<int>(json, "left_out", 0),
                             .layers = {},
                             .input = read_time(json, "input_us"),
                             .target = read_time(json, "target_us"),
                             .loss = read_time(json, "loss_us"),
                             .overhead = read_time(json, "overhead_us"),
                             .step = read_time(json, "step_us")};
  for (const Json& layer : read_list(json, "layers")) profile.layers.push_back(read_layer(layer));
  return profile;
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

std::vector<exec::HandoverCost> read_handovers(const Json& json) {
  std::vector<exec::HandoverCost> costs;
  for (const Json& layer : read_list(json, "layers")) {
    costs.push_back({.forward_in = read_us(layer, "forward_in_us") * ns_per_us,
                     .forward_out = read_us(layer, "forward_out_us") * ns_per_us,
                     .backward_in = read_us(layer, "backward_in_us") * ns_per_us,
                     .backward_out = read_us(layer, "backward_out_us") * ns_per_us});
  }
  return costs;
}

/// For every size that was measured; files of GPUs, and those of old, have none.
void read_handovers(const Json& json, ProfileFile& file) {
  for (const Json& one : read_list(json, "handovers")) {
    const int size = read_whole<int>(one, "batch_size", 1);
    const auto& costs = file.handovers[size] = read_handovers(one);
    require(costs.size() == file.profiles.front().layers.size(),
            "its 'handovers' have another number of layers than its profiles");
  }
  for (const exec::LayerProfile& profile : file.profiles) {
    require(file.handovers.contains(profile.micro_batch_size),
            "its 'handovers' have no 'batch_size' {}", profile.micro_batch_size);
  }
}

ProfileFile read_document(const Json& json) {
  require(!json.is_object() || !json.contains("stages") || json.contains("model"),
          "it holds the costs of stages, for simulate and compare; one of layers is needed here, "
          "made by 'unlatch profile --model'");
  ProfileFile file{.model = read_name(json, "model"),
                   .data = read_name(json, "data"),
                   .device = json.contains("device") ? read_name(json, "device") : "cpu",
                   .precision = read_precision(json),
                   .sample_bytes = read_whole<std::int64_t>(json, "sample_bytes", 1),
                   .profiles = {}};
  for (const Json& profile : read_list(json, "profiles")) {
    file.profiles.push_back(read_one(profile, file.model));
    require(file.profiles.back().layers.size() == file.profiles.front().layers.size(),
            "its profiles have different numbers of layers");
  }
  if (json.contains("handovers")) read_handovers(json, file);
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
  const std::string text = read_text(path);
  const auto watch = [](int depth, Json::parse_event_t, const Json&) {
    constexpr int most_depth = 20;  // values are printed by recursion
    require(depth <= most_depth, "it is nested more than {} deep", most_depth);
    return true;
  };
  try {
    return read_document(Json::parse(text, watch));
  } catch (const Json::parse_error& wrong) {
    fail("profile '{}' is not one that 'unlatch profile' wrote: it is no JSON at byte {} of {}",
         path, wrong.byte, text.size());
  } catch (const Json::exception&) {
    fail("profile '{}': a number in it is too large", path);
  } catch (const Error& wrong) {
    fail("profile '{}': {}", path, wrong.what());
  }
}

}  // namespace unlatch::tools
