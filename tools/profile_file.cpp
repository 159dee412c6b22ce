#include "tools/profile_file.h"

#include "schedules/error.h"
#include "traces/input_file.h"

namespace unlatch::tools {
namespace {

constexpr double ns_per_us = 1e3;

Json time_json(const exec::Measurement& time) {
  return {{"median", static_cast<double>(time.median_ns) / ns_per_us},
          {"lower", static_cast<double>(time.lower_ns) / ns_per_us},
          {"upper", static_cast<double>(time.upper_ns) / ns_per_us}};
}

exec::Measurement read_time(const Json& json, const char* key) {
  const Json& time = json.at(key);
  const auto ns = [&](const char* part) {
    const double us = time.at(part).get<double>();
    constexpr double most_us = 1e12;
    require(us >= 0 && us < most_us, "'{}' of '{}' is {}, it must be a time >= 0", part, key, us);
    return static_cast<std::int64_t>(us * ns_per_us + 0.5);
  };
  return {.median_ns = ns("median"), .lower_ns = ns("lower"), .upper_ns = ns("upper")};
}

Json to_json(const exec::LayerCost& layer) {
  return {{"name", layer.name},
          {"forward_us", time_json(layer.forward)},
          {"forward_only_us", time_json(layer.forward_only)},
          {"backward_us", time_json(layer.backward)},
          {"update_us", time_json(layer.update)},
          {"output_bytes", layer.output_bytes},
          {"tape_bytes", layer.tape_bytes},
          {"parameter_bytes", layer.parameter_bytes}};
}

exec::LayerCost read_layer(const Json& json) {
  return {.name = json.at("name").get<std::string>(),
          .forward = read_time(json, "forward_us"),
          .forward_only = read_time(json, "forward_only_us"),
          .backward = read_time(json, "backward_us"),
          .update = read_time(json, "update_us"),
          .output_bytes = json.at("output_bytes").get<std::size_t>(),
          .tape_bytes = json.at("tape_bytes").get<std::size_t>(),
          .parameter_bytes = json.at("parameter_bytes").get<std::size_t>()};
}

Json to_json(const exec::LayerProfile& profile) {
  Json json{{"batch_size", profile.micro_batch_size},
            {"workers", profile.workers},
            {"optimizer", profile.optimizer},
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

exec::LayerProfile read_one(const Json& json, const std::string& model) {
  exec::LayerProfile profile{.model = model,
                             .optimizer = json.at("optimizer").get<std::string>(),
                             .micro_batch_size = json.at("batch_size").get<int>(),
                             .workers = json.at("workers").get<int>(),
                             .samples = json.at("samples").get<int>(),
                             .left_out = json.at("left_out").get<int>(),
                             .layers = {},
                             .input = read_time(json, "input_us"),
                             .target = read_time(json, "target_us"),
                             .loss = read_time(json, "loss_us"),
                             .overhead = read_time(json, "overhead_us"),
                             .step = read_time(json, "step_us")};
  for (const Json& layer : json.at("layers")) profile.layers.push_back(read_layer(layer));
  require(profile.micro_batch_size >= 1 && profile.workers >= 1 && !profile.layers.empty(),
          "a profile needs a batch size, workers and layers");
  return profile;
}

ProfileFile read_document(const Json& json) {
  ProfileFile file{.model = json.at("model").get<std::string>(),
                   .data = json.at("data").get<std::string>(),
                   .sample_bytes = json.at("sample_bytes").get<std::int64_t>(),
                   .profiles = {}};
  for (const Json& profile : json.at("profiles")) {
    file.profiles.push_back(read_one(profile, file.model));
    require(file.profiles.back().layers.size() == file.profiles.front().layers.size(),
            "its profiles have different numbers of layers");
  }
  require(!file.profiles.empty(), "it holds no profiles");
  return file;
}

}  // namespace

Json to_json(const ProfileFile& file) {
  Json json{{"model", file.model},
            {"data", file.data},
            {"sample_bytes", file.sample_bytes},
            {"profiles", Json::array()}};
  for (const exec::LayerProfile& profile : file.profiles) {
    json["profiles"].push_back(to_json(profile));
  }
  return json;
}

ProfileFile read_profile(const std::string& path) {
  const std::string text = read_text(path);
  try {
    return read_document(Json::parse(text));
  } catch (const Json::exception& wrong) {
    fail("profile '{}' is not one that 'unlatch profile' wrote: {}", path, wrong.what());
  } catch (const Error& wrong) {
    fail("profile '{}': {}", path, wrong.what());
  }
}

}  // namespace unlatch::tools
