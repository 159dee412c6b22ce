// Profiles that are damaged, contradict themselves or lack what is asked of them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

TEST(DamagedProfile, SaysThatAProfileIsCutOffWhateverItHolds) {
  const Folder folder;
  folder.write("p.json", R"({"sources": ["a"], "warm_up": 1,)"
                         "\n"
                         R"("stages": [{"forward": {)");
  const Outcome outcome = folder.run("simulate --schedule bp --profile p.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("p.json"), HasSubstr("line 2")));
}

/// A complete profile of one layer.
json small_profile() {
  const json time{{"mean", 1.5}, {"median", 1.5}, {"lower", 1.0}, {"upper", 2.0}};
  const json layer{{"name", "linear1"},         {"forward_us", time},
                   {"forward_only_us", time},   {"backward_us", time},
                   {"input_gradient_us", time}, {"weight_gradient_us", time},
                   {"update_us", time},         {"output_bytes", 40},
                   {"tape_bytes", 256},         {"weight_grad_activation_bytes", 896},
                   {"parameter_bytes", 2600}};
  const json one{{"batch_size", 16},    {"workers", 1},      {"optimizer", "sgd"},
                 {"samples", 3},        {"left_out", 0},     {"layers", {layer}},
                 {"input_us", time},    {"target_us", time}, {"loss_us", time},
                 {"overhead_us", time}, {"step_us", time}};
  const json cut{{"forward_in_us", 1.5},
                 {"forward_out_us", 1.5},
                 {"backward_in_us", 1.5},
                 {"backward_out_us", 1.5}};
  return {{"model", "mlp"},      {"data", "digits"},
          {"device", "cpu"},     {"precision", "fp32"},
          {"sample_bytes", 256}, {"handovers", {{{"batch_size", 16}, {"layers", {cut}}}}},
          {"profiles", {one}}};
}

/// "/profiles/0/workers" as messages write it, "profiles[0].workers".
std::string place_of(const std::string& pointer) {
  std::string place;
  for (std::size_t at = 0; at < pointer.size();) {
    const auto end = std::min(pointer.find('/', at + 1), pointer.size());
    const std::string part = pointer.substr(at + 1, end - at - 1);
    const bool number = part.find_first_not_of("0123456789") == std::string::npos;
    place += number ? fmt::format("[{}]", part) : fmt::format("{}{}", at == 0 ? "" : ".", part);
    at = end;
  }
  return place;
}

TEST(DamagedProfile, ReadsNothingFromADamagedProfile) {
  const Folder folder;
  const std::string simulate =
      "simulate --schedule bp --stages 1 --profile p.json --batch-size 16 --json";
  const json whole = small_profile();
  const json leaves = whole.flatten();
  folder.write("p.json", whole.dump());
  EXPECT_EQ(folder.run(simulate).code, 0);
  for (const auto& [at, leaf] : leaves.items()) {
    for (const json& value : {json(-1), json(1e300), json(0.5e-9), json(1LL << 62), json(nullptr),
                              json::array(), json("x")}) {
      json damaged = whole;
      damaged[json::json_pointer(at)] = value;
      const bool time = at.find("_us/") != std::string::npos || at.ends_with("_us");
      if (value.is_string() && leaf.is_string()) continue;
      if (time && value == json(0.5e-9)) continue;
      folder.write("p.json", damaged.dump());
      const Outcome outcome = folder.run(simulate);
      SCOPED_TRACE(fmt::format("{} = {}", at, value.dump()));
      expect_refused(outcome);
      EXPECT_THAT(outcome.err, HasSubstr("profile 'p.json', " + place_of(at) + ":"));
      EXPECT_EQ(outcome.err.find("json.exception"), std::string::npos) << outcome.err;
    }
  }
}

json& first_layer(json& file) { return file["profiles"][0]["layers"][0]; }

/// What one change makes of the small profile, and what must be said about it.
struct Contradiction {
  const char* what;
  void (*change)(json& file);
  const char* message;
};

/// Its only profile again, for another number of workers.
json& second_profile(json& file) {
  file["profiles"].push_back(file["profiles"][0]);
  file["profiles"][1]["workers"] = 2;
  return file["profiles"][1];
}

TEST(DamagedProfile, RefusesProfilesThatContradictThemselves) {
  const Folder folder;
  const std::vector<Contradiction> contradictions{
      {"twice", [](json& file) { second_profile(file)["workers"] = 1; },
       "profiles[1]: it is of batch size 16 and 1 worker, as profiles[0] is"},
      {"order", [](json& file) { first_layer(file)["forward_us"]["lower"] = 1.6; },
       "profiles[0].layers[0].forward_us: lower 1.6, median 1.5 and upper 2 are not in this order"},
      {"order", [](json& file) { file["profiles"][0]["loss_us"]["upper"] = 1.4; },
       "profiles[0].loss_us: lower 1, median 1.5 and upper 1.4 are not in this order"},
      {"mean", [](json& file) { first_layer(file)["input_gradient_us"]["mean"] = 0.7; },
       "layers[0].input_gradient_us.mean: 0.7 is less than half of the median, 1.5"},
      {"step", [](json& file) { first_layer(file)["backward_us"]["mean"] = 300; },
       "layers[0].backward_us.mean: 300 is more than the 1.5 of"},
      {"step", [](json& file) { file["profiles"][0]["step_us"]["median"] = 1.2; },
       "profiles[0].input_us.median: 1.5 is more than the 1.2 of"},
      {"names", [](json& file) { file["profiles"][0]["layers"].push_back(first_layer(file)); },
       "profiles[0].layers[1].name: 'linear1' is also the name of layer 0"},
      {"names", [](json& file) { second_profile(file)["layers"][0]["name"] = "linear2"; },
       "profiles[1].layers[0].name: 'linear2', but layer 0 of profiles[0] is 'linear1'"},
      {"layers",
       [](json& file) {
         json& layers = second_profile(file)["layers"];
         layers.push_back(layers[0]);
         layers[1]["name"] = "linear2";
       },
       "profiles[1].layers: 2 layers, but profiles[0] has 1"},
      {"optimizer", [](json& file) { file["profiles"][0]["optimizer"] = "sdg"; },
       "profiles[0].optimizer: unknown optimizer 'sdg'; known are"},
      {"optimizer", [](json& file) { file["profiles"][0]["optimizer"] = "sdg"; },
       "Did you mean 'sgd'"},
      {"optimizer", [](json& file) { second_profile(file)["optimizer"] = "adam"; },
       "profiles[1].optimizer: 'adam', but profiles[0] is of 'sgd'"},
      {"slots", [](json& file) { file["profiles"][0]["optimizer_slots"] = 1; },
       "profiles[0].optimizer_slots: 1, but 'sgd' keeps 0 numbers for each parameter"},
      {"slots",
       [](json& file) {
         file["profiles"][0]["optimizer"] = "momentum";
         file["profiles"][0]["optimizer_slots"] = 2;
       },
       "profiles[0].optimizer_slots: 2, but 'momentum' keeps 0 to 1 number for each parameter"},
      {"sample", [](json& file) { file["sample_bytes"] = 5; },
       "sample_bytes: 5 are no whole floats"},
      {"parameters", [](json& file) { second_profile(file)["layers"][0]["parameter_bytes"] = 5; },
       "profiles[1].layers[0].parameter_bytes: 5, but 2600 in profiles[0]"},
      {"outputs", [](json& file) { second_profile(file)["layers"][0]["output_bytes"] = 44; },
       "profiles[1].layers[0].output_bytes: 44 of 16 samples, but 40 of 16 in profiles[0]"},
      {"outputs",
       [](json& file) {
         json& other = second_profile(file);
         other["batch_size"] = 32;
         other["layers"][0]["output_bytes"] = 4;
       },
       "profiles[1].layers[0].output_bytes: 4 of 32 samples, but 40 of 16 in profiles[0]"},
      {"activation",
       [](json& file) { first_layer(file)["weight_grad_activation_bytes"] = 7'000'000; },
       "weight_grad_activation_bytes: 7000000 is more than 1000 times the layer's input, output "
       "and "
       "parameters together, 6736"},
      {"tape", [](json& file) { first_layer(file)["tape_bytes"] = 1'000'000'000'000; },
       "layers[0].tape_bytes: 1000000000000 is more than 1000 times"},
      {"halves",
       [](json& file) {
         file["profiles"][0]["samples"] = 5;
         for (auto& part : first_layer(file)["weight_gradient_us"]) part = 204;
       },
       "layers[0]: the median of B, 1.5 us, and those of I and W, 1.5 and 204 us, are more than "
       "50"},
      {"halves",
       [](json& file) {
         file["profiles"][0]["samples"] = 5;
         for (auto& part : file["profiles"][0]["step_us"]) part = 400;
         for (auto& part : first_layer(file)["backward_us"]) part = 400;
       },
       "layers[0]: the median of B, 400 us, and those of I and W, 1.5 and 1.5 us"},
      {"mean", [](json& file) { first_layer(file)["input_gradient_us"]["mean"] = 9; },
       "input_gradient_us.mean: 9 is more than 4 times the upper quartile, 2; no 3 times have"},
      {"key", [](json& file) { file["presicion"] = "fp32"; }, "Did you mean 'precision'?"},
      {"key", [](json& file) { file["profiles"][0]["worker"] = 1; }, "Did you mean 'workers'?"},
      {"key", [](json& file) { first_layer(file)["forwards_us"] = 1; },
       "profiles[0].layers[0]: unknown key 'forwards_us'"},
      {"key", [](json& file) { first_layer(file)["update_us"]["men"] = 1; },
       "Did you mean 'mean'?"},
      {"key", [](json& file) { file["handovers"][0]["layers"][0]["forward_us"] = 1; },
       "handovers[0].layers[0]: unknown key 'forward_us'"},
      {"device", [](json& file) { file["device"] = "gpu"; },
       "device: 'gpu' is neither 'cpu' nor the name of a GPU"},
      {"device",
       [](json& file) {
         file["device"] = "tpu";
         file.erase("handovers");
         file.erase("precision");
       },
       "device: 'tpu' is neither 'cpu' nor the name of a GPU"},
      {"precision", [](json& file) { file["precision"] = "bf16"; }, "a CPU computes in fp32"},
      {"workers",
       [](json& file) {
         file["device"] = "NVIDIA H200";
         file.erase("handovers");
         file["profiles"][0]["workers"] = 2;
       },
       "profiles[0].workers: 2, but a GPU has 1"},
      {"handovers", [](json& file) { file["handovers"].push_back(file["handovers"][0]); },
       "handovers[1].batch_size: 16 is there twice"},
      {"handovers",
       [](json& file) {
         file["handovers"].push_back(file["handovers"][0]);
         file["handovers"][1]["batch_size"] = 8;
       },
       "handovers[1].batch_size: none of the 'profiles' is of batch size 8"},
      {"handovers", [](json& file) { file["handovers"][0]["batch_size"] = 8; }, "batch size 8"},
  };
  for (const Contradiction& of : contradictions) {
    SCOPED_TRACE(of.message);
    json file = small_profile();
    of.change(file);
    folder.write("p.json", file.dump());
    const Outcome outcome =
        folder.run("simulate --schedule bp --stages 1 --profile p.json --batch-size 16");
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("profile 'p.json'"), HasSubstr(of.message)));
  }
  folder.write("p.json", R"({"model": "mlp", "model": "lenet"})");
  EXPECT_THAT(folder.run("simulate --schedule bp --profile p.json --batch-size 16").err,
              HasSubstr("key 'model' is given twice"));
}

// Files of old have no costs of cuts: two workers are then predicted without them, which is said.
TEST(DamagedProfile, SaysThatAProfileHasNoHandovers) {
  const Folder folder;
  json file = small_profile();
  json& layers = file["profiles"][0]["layers"];
  layers.push_back(layers[0]);
  layers[1]["name"] = "linear2";
  json& cuts = file["handovers"][0]["layers"];
  cuts.push_back(cuts[0]);
  const auto err = [&](const char* flags) {
    folder.write("p.json", file.dump());
    const Outcome outcome = folder.run(
        fmt::format("simulate --schedule bp --profile p.json --batch-size 16 {}", flags));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  const auto note = HasSubstr("no 'handovers'");
  EXPECT_THAT(err("--stages 2 --threads 2"), Not(note));
  file.erase("handovers");
  EXPECT_THAT(err("--stages 2 --threads 2"), note);
  EXPECT_THAT(err("--stages 1 --threads 2"), Not(note));
}

TEST(DamagedProfile, SaysWhatADamagedProfileLacks) {
  const Folder folder;
  for (const char* text : {"", "null", "[]", "3", "{}", "{\"model\":\"mlp\"", "\xff"}) {
    folder.write("p.json", text);
    const Outcome outcome = folder.run("simulate --schedule bp --profile p.json --batch-size 16");
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("p.json"), HasSubstr("'unlatch profile' wrote")));
    EXPECT_EQ(outcome.err.find("json.exception"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace unlatch::test
