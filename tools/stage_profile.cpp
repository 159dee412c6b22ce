#include "tools/stage_profile.h"

#include <algorithm>

#include "models/json_value.h"
#include "schedules/error.h"
#include "tools/measurement_json.h"
#include "tools/profile_checks.h"
#include "traces/input_file.h"

namespace unlatch::tools {
namespace {

using models::JsonValue;

struct Kind {
  const char* key;
  std::optional<StageMeasurement> StageProfile::*time;
};
constexpr Kind kinds[] = {{"forward_us", &StageProfile::forward},
                          {"backward_us", &StageProfile::backward},
                          {"input_gradient_us", &StageProfile::input_gradient},
                          {"weight_gradient_us", &StageProfile::weight_gradient}};

Json to_json(const StageMeasurement& measured) {
  Json json = time_json(measured.time);
  json["samples"] = measured.samples;
  return json;
}

StageMeasurement read_samples(const JsonValue& value) {
  constexpr int most_samples = 1 << 30;
  value.require_object({"mean", "median", "lower", "upper", "samples"});
  const StageMeasurement measured{.time = read_measurement(value),
                                  .samples = value.at("samples").whole(1, most_samples)};
  require_mean_of_times(value, measured.time, measured.samples);
  return measured;
}

StageProfile read_stage(const JsonValue& value) {
  value.require_object({"forward_us", "backward_us", "input_gradient_us", "weight_gradient_us"});
  StageProfile stage;
  for (const Kind& kind : kinds) {
    if (value.has(kind.key)) stage.*kind.time = read_samples(value.at(kind.key));
  }
  require(stage.forward.has_value(), "{}: there is no 'forward_us'", value.place());
  require(stage.backward || stage.is_split(),
          "{}: there is neither 'backward_us' nor 'input_gradient_us' with 'weight_gradient_us'",
          value.place());
  require(stage.input_gradient.has_value() == stage.weight_gradient.has_value(),
          "{}: there is '{}' without '{}'; they are the two halves of B", value.place(),
          stage.input_gradient ? "input_gradient_us" : "weight_gradient_us",
          stage.input_gradient ? "weight_gradient_us" : "input_gradient_us");
  if (stage.backward && stage.is_split()) {
    require_halves_fit(value, stage.backward->time, stage.input_gradient->time,
                       stage.weight_gradient->time,
                       std::min({stage.backward->samples, stage.input_gradient->samples,
                                 stage.weight_gradient->samples}));
  }
  return stage;
}

/// The keys of the outermost object, without what they hold: the file may be a trace of gigabytes.
std::vector<std::string> keys_of(const std::string& text) {
  using Event = nlohmann::json::parse_event_t;
  constexpr int most_depth = 100;  // beyond it, readers say what is wrong
  std::vector<std::string> keys;
  try {
    const auto ignored = nlohmann::json::parse(text, [&](int depth, Event event, auto& value) {
      if (depth == 1 && event == Event::key) keys.push_back(value.template get<std::string>());
      return depth < most_depth && depth == 0;
    });
  } catch (const nlohmann::json::exception&) {
    return keys;  // those in front of the damage; who reads it names the place
  }
  return keys;
}

}  // namespace

bool StageProfileFile::halves_backward() const {
  return !std::ranges::all_of(stages, &StageProfile::is_split);
}

Json to_json(const StageProfileFile& file) {
  Json json{{"sources", file.sources}, {"warm_up", file.warm_up}, {"stages", Json::array()}};
  for (const StageProfile& stage : file.stages) {
    Json entry;
    for (const Kind& kind : kinds) {
      if (const auto& measured = stage.*kind.time) entry[kind.key] = to_json(*measured);
    }
    json["stages"].push_back(std::move(entry));
  }
  return json;
}

std::optional<StageProfileFile> read_stage_profile(const std::string& path) {
  const std::string text = read_text(path);
  const std::vector<std::string> keys = keys_of(text);
  const auto has = [&](std::string_view key) { return std::ranges::find(keys, key) != keys.end(); };
  require(!has("traceEvents"),
          "profile '{}' is a trace; make a profile of it first: unlatch profile --from-trace {} "
          "--save FILE.json",
          path, path);
  if (!has("stages") && !has("sources")) return std::nullopt;
  const nlohmann::json json = models::parse_json(text, path);
  const JsonValue file(json, path);
  file.require_object({"sources", "warm_up", "stages"});
  StageProfileFile result;
  for (const JsonValue& source : file.at("sources").list()) result.sources.push_back(source.text());
  result.warm_up = file.at("warm_up").whole(0, 1 << 30);
  for (const JsonValue& stage : file.at("stages").list()) {
    result.stages.push_back(read_stage(stage));
  }
  return result;
}

void set_measured_work(const StageProfileFile& file, sim::StageTimes& times) {
  const auto median = [](const std::optional<StageMeasurement>& measured) {
    return nanoseconds(measured ? measured->time.median_ns : 0);
  };
  for (std::size_t k = 0; k < times.forward.size(); ++k) {
    const StageProfile& stage = file.stages[k % file.stages.size()];
    const nanoseconds split = median(stage.input_gradient) + median(stage.weight_gradient);
    times.forward[k] = median(stage.forward);
    times.backward[k] = stage.backward ? median(stage.backward) : split;
    times.backward_input[k] =
        stage.is_split() ? median(stage.input_gradient) : times.backward[k] / 2;
    times.backward_weight[k] = stage.is_split() ? median(stage.weight_gradient)
                                                : times.backward[k] - times.backward_input[k];
  }
}

}  // namespace unlatch::tools
