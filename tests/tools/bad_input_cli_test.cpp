// What people get wrong on the command line and in files, and machines that run full.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string mlp = " --model mlp --data digits --stages 2 --schedule bp";

// The only batch has a finite loss; the update after it does not.
TEST(BadInput, TrainFindsWeightsThatDivergedInTheLastStep) {
  const Folder folder;
  const Outcome outcome = folder.run("train --steps 1 --lr 1e30 --save w --trace t.json" + mlp);
  expect_refused(outcome, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("diverged"), HasSubstr("after step 1")));
  EXPECT_EQ(folder.files(), 0);
}

TEST(BadInput, TrainRefusesARunWithoutAnUpdate) {
  const Folder folder;
  const Outcome outcome = folder.run(
      "train --model mlp --data digits --stages 1 --schedule adl:accumulate=5 --steps 4");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("adl:accumulate=5 reaches no update in 4 batches"));
}

// O40: whatever is missing, one message says so and what works.
TEST(BadInput, TrainSaysWhyThereIsNoGpu) {
  const Folder folder;
  const Outcome broken =
      folder.run("train --steps 1 --device cuda" + mlp, "UNLATCH_CUDA_LIBRARY=/no/such/library.so");
  expect_refused(broken);
  EXPECT_THAT(broken.err, AllOf(HasSubstr("/no/such/library.so cannot be loaded"),
                                HasSubstr("--device cpu works without it")));
  for (const char* device :
       {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:0,", "cuda:0,,1", "gpu", "cuda0"}) {
    const Outcome outcome = folder.run(fmt::format("train --steps 1 --device {}{}", device, mlp));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("must be cpu, cuda or cuda:N[,N...]")) << device;
  }
  const Outcome limit = folder.run("train --steps 1 --memory-limit 1GiB" + mlp);
  expect_refused(limit);
  EXPECT_THAT(limit.err, HasSubstr("--memory-limit is for --device cuda"));
  const Outcome nothing = folder.run("train --steps 1 --device cuda --memory-limit 0" + mlp);
  expect_refused(nothing);
  EXPECT_THAT(nothing.err, HasSubstr("--memory-limit '0': must be greater than 0"));
  const Outcome absent = folder.run("train --steps 1 --device cuda:99" + mlp);
  expect_refused(absent);
  EXPECT_THAT(absent.err, testing::AnyOf(HasSubstr("no CUDA device"), HasSubstr("no device 99"),
                                         HasSubstr("built without CUDA")));
}

TEST(BadInput, TrainLooksForTheLibrariesOfTheCudaLibraryWhereItIsTold) {
  const Folder folder;
  const std::string library = UNLATCH_SEARCH_FIRST;
  const auto train = [&](const std::string& path) {
    return folder.run(fmt::format("train --steps 1 --device cuda{}", mlp),
                      fmt::format("UNLATCH_CUDA_LIBRARY='{}' {}", library, path));
  };
  const Outcome lost = train("");
  expect_refused(lost);
  EXPECT_THAT(lost.err, AllOf(HasSubstr("libsearch_second.so.7 is not found"),
                              HasSubstr("UNLATCH_CUDA_PATH")));
  const std::string where = library.substr(0, library.rfind('/'));
  const Outcome loaded = train(fmt::format("UNLATCH_CUDA_PATH='/no/such/folder:{}'", where));
  expect_refused(loaded);
  EXPECT_THAT(loaded.err, HasSubstr("is no CUDA library of unlatch"));
}

TEST(BadInput, TrainNamesARateOfZero) {
  const Folder folder;
  const Outcome outcome = folder.run("train --steps 1 --lr 0.0" + mlp);
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("--lr '0.0': must be greater than 0"));
}

// A full disk is no failure of the task that was running.
TEST(BadInput, TrainBlamesTheMetricsFileForAFullDisk) {
  const Folder folder;
  const Outcome outcome = folder.run("train --epochs 40 --batch-size 8 --metrics /dev/full" + mlp);
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("error: cannot write '/dev/full'"));
}

TEST(BadInput, RefusesAModelThatNoMachineHolds) {
  const Folder folder;
  for (const char* command : {"train --schedule bp --steps 1", "profile"}) {
    const Outcome outcome =
        folder.run(fmt::format("{} --model mlp:hidden=1048576/1048576 --data digits", command));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("model mlp"), HasSubstr("GiB of memory")));
  }
}

// The program waits for the pipe's other end while its limit is read.
TEST(BadInput, LimitsItsMemorySoThatTheKernelNeedNotKillIt) {
  const Folder folder;
  folder.run(
      "diff pipe pipe & exec 3>pipe; grep 'Max data size' /proc/$!/limits >limit; exec 3>&-; wait "
      "$!",
      "mkfifo pipe;");
  EXPECT_THAT(folder.read("limit"), testing::ContainsRegex("Max data size +[0-9]+ "));
}

TEST(BadInput, RefusesOneFileForTwoOutputs) {
  const Folder folder;
  folder.write("old", "old");
  for (const std::string& command :
       {std::string("simulate --schedule bp --trace old --tasks ./old"),
        "train --steps 1 --metrics x --save x" + mlp,
        "train --steps 1 --tasks y --save \"$PWD/y\"" + mlp}) {
    const Outcome outcome = folder.run(command);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("both write")) << command;
  }
  EXPECT_EQ(folder.read("old"), "old");
  EXPECT_EQ(folder.files(), 1);
  EXPECT_EQ(folder.run("simulate --schedule bp --trace /dev/null --tasks /dev/null").code, 0);
}

TEST(BadInput, RefusesToWriteOverWhatItReads) {
  const Folder folder;
  ASSERT_EQ(folder.run("convert 1f1b plan.json --stages 2 --microbatches 4").code, 0);
  folder.write("run.json", R"({"schedule": "bp"})");
  folder.write("p.json", "{}");
  const std::string plan = folder.read("plan.json");
  for (const std::string& command :
       {std::string("simulate --schedule file:plan.json --trace plan.json"),
        std::string("simulate --schedule file:plan.json --tasks ./plan.json"),
        std::string("compare --schedule bp --schedule file:plan.json --report plan.json"),
        std::string("simulate --schedule bp --profile p.json --tasks p.json"),
        std::string("simulate run.json --trace run.json"),
        "train --schedule bp --save p.json --profile p.json" + mlp}) {
    const Outcome outcome = folder.run(command);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("is read by")) << command;
  }
  EXPECT_EQ(folder.read("plan.json"), plan);
  EXPECT_EQ(folder.read("p.json"), "{}");
}

TEST(BadInput, WritesNoFileWhenTheOtherCannotBeWritten) {
  const Folder folder;
  const Outcome outcome = folder.run("simulate --schedule bp --trace t.json --tasks no/t.csv");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("no/t.csv"));
  EXPECT_EQ(folder.files(), 0);
}

TEST(BadInput, ShowsControlCharactersRatherThanSendThem) {
  const Folder folder;
  folder.write("run.json", R"({"sche\u001b[31mdule": "bp"})");
  for (const char* command : {"simulate run.json", "simulate --schedule \"$(printf 'a\\033[31m')\"",
                              "simulate --schedule bp --forward \"$(printf '1m\\033s')\""}) {
    const Outcome outcome = folder.run(command);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("\\x1b"), Not(HasSubstr("\x1b")))) << command;
  }
}

TEST(BadInput, SaysThatAProfileIsCutOffWhateverItHolds) {
  const Folder folder;
  folder.write("p.json", R"({"sources": ["a"], "warm_up": 1,)"
                         "\n"
                         R"("stages": [{"forward": {)");
  const Outcome outcome = folder.run("simulate --schedule bp --profile p.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("p.json"), HasSubstr("line 2")));
}

TEST(BadInput, DoesNotTakeADashForAFile) {
  const Folder folder;
  const Outcome outcome = folder.run("simulate --schedule bp --trace -");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("/dev/stdout"));
  EXPECT_EQ(folder.files(), 0);
}

TEST(BadInput, NamesTheFlagOfAnOutputWithoutAName) {
  const Folder folder;
  for (const char* flag : {"simulate --schedule bp --trace", "simulate --schedule bp --tasks",
                           "compare --schedule bp --report", "compare --schedule bp --trace-dir",
                           "profile --model mlp --save"}) {
    const Outcome outcome = folder.run(fmt::format("{} ''", flag));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("--"), HasSubstr("must name a file"))) << flag;
  }
}

TEST(BadInput, ReadsEveryValueOfASwitch) {
  const Folder folder;
  expect_refused(folder.run("simulate --schedule bp --json --json=no"));
  folder.write("s.json", R"({"schedule":"bp","json":[true,false]})");
  const Outcome outcome = folder.run("simulate s.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("json: it must be true or false"));
}

TEST(BadInput, NamesTheScenarioKeyOfAnEmptyList) {
  const Folder folder;
  folder.write("s.json", R"({"schedule":"bp","forward":[]})");
  const Outcome outcome = folder.run("simulate s.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("s.json line 1, forward: the list is empty"));
}

TEST(BadInput, SuggestsNoScenarioKeyThatIsNone) {
  const Folder folder;
  folder.write("s.json", R"({"schedule":"bp","help":true})");
  const Outcome outcome = folder.run("simulate s.json");
  expect_refused(outcome);
  EXPECT_EQ(outcome.err.find("Did you mean"), std::string::npos) << outcome.err;
}

TEST(BadInput, FindsTheClosestNameInUpperCase) {
  const Folder folder;
  EXPECT_THAT(folder.run("simulate --schedule GPIPE").err, HasSubstr("Did you mean 'gpipe'?"));
}

TEST(BadInput, RefusesStalenessBeyondCounting) {
  const Folder folder;
  for (const char* staleness : {"2147483647/0", "2000000000/0", "1000001/1000001/0"}) {
    const Outcome outcome =
        folder.run(fmt::format("simulate --schedule dsp:staleness={} --stages {}", staleness,
                               staleness[7] == '/' ? 3 : 2));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("staleness of stage 0"), HasSubstr("at most 1000000")));
  }
}

// Every task and the makespan fit the nanoseconds of 64 bits, the time of all ranks does not.
TEST(BadInput, CountsTheTimeOfAllRanksBeyondSixtyFourBits) {
  const Folder folder;
  const std::string bp = "simulate --schedule bp --forward 1000000s ";
  EXPECT_EQ(folder.run(bp + "--slow 0:20").code, 0);
  const Outcome slow = folder.run(bp + "--slow 0:900");
  expect_refused(slow);
  EXPECT_THAT(slow.err, HasSubstr("longer than 292 years"));
  const json random = folder.json(bp + "--straggler lognormal:sigma=5");
  ASSERT_GT(random["makespan_ms"].get<double>(), 2.4e12);  // a quarter of 64 bits
  EXPECT_GT(random["bubble_ratio"].get<double>(), 0);
  EXPECT_LT(random["bubble_ratio"].get<double>(), 1);
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

TEST(BadInput, ReadsNothingFromADamagedProfile) {
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

json& first_layer(json& file) { return file["profiles"][0]["layers"][0]; }

TEST(BadInput, RefusesProfilesThatContradictThemselves) {
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
TEST(BadInput, SaysThatAProfileHasNoHandovers) {
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

TEST(BadInput, NamesTheFileOfANumberBeyondAll) {
  const Folder folder;
  folder.write("p.json", R"({"model": "mlp", "sample_bytes": 1e309})");
  folder.write("t.json", R"({"traceEvents": [{"ph": "X", "ts": 1e309}]})");
  for (const auto& [arguments, message] :
       {std::pair("simulate --schedule bp --profile p.json --batch-size 16", "profile 'p.json'"),
        std::pair("diff t.json t.json", "t.json: a number in it is too large")}) {
    const Outcome outcome = folder.run(arguments);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
}

TEST(BadInput, RefusesWhatIsNestedBeyondAll) {
  const Folder folder;
  constexpr int depth = 200'000;
  folder.write("x.json", fmt::format("{{\"model\": {:[>{}}{:]>{}}}}", "", depth, "", depth));
  folder.write("events.json", fmt::format("{:[>{}}{:]>{}}", "", depth, "", depth));
  for (const char* command :
       {"simulate --schedule bp --profile x.json --batch-size 4", "diff events.json events.json"}) {
    const Outcome outcome = folder.run(command);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("it is nested more than "));
  }
}

TEST(BadInput, RefusesWhatCouldNotBeCompared) {
  const Folder folder;
  ASSERT_EQ(folder.run("simulate --schedule bp --tasks t.csv").code, 0);
  const std::string text = folder.read("t.csv");
  folder.write("empty.csv", text.substr(0, text.find('\n') + 1));
  const Outcome nothing = folder.run("diff empty.csv empty.csv");
  expect_refused(nothing);
  EXPECT_THAT(nothing.err, HasSubstr("empty.csv holds no tasks"));
  expect_refused(folder.run("partition --layer-costs 2,1,1,2 --stages 3 --data digits"));
}

TEST(BadInput, EvalEndsWithOneForWeightsThatAreNone) {
  const Folder folder;
  ASSERT_EQ(folder.run("train --steps 1 --save w" + mlp).code, 0);
  std::string weights = folder.read("w");
  weights.replace(weights.size() - 4, 4, std::string("\x00\x00\xc0\x7f", 4));  // NaN
  folder.write("w", weights);
  const Outcome outcome = folder.run("eval --weights w --model mlp --data digits");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no finite number"));
}

TEST(BadInput, SaysWhatADamagedProfileLacks) {
  const Folder folder;
  for (const char* text : {"", "null", "[]", "3", "{}", "{\"model\":\"mlp\"", "\xff"}) {
    folder.write("p.json", text);
    const Outcome outcome = folder.run("simulate --schedule bp --profile p.json --batch-size 16");
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("p.json"), HasSubstr("'unlatch profile' wrote")));
    EXPECT_EQ(outcome.err.find("json.exception"), std::string::npos) << outcome.err;
  }
}

TEST(BadInput, MomentumIsNotAppliedTwiceToCompressedGradients) {
  const Folder folder;
  for (const std::string command :
       {"numerics --weights 0.5,0.4", "train --model mlp --data digits --stages 2 --steps 2"}) {
    const Outcome outcome = folder.run(fmt::format(
        "{} --schedule ssgd:compression=topk --replicas 2 --optimizer momentum", command));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("would apply momentum twice"));
  }
}

TEST(BadInput, WhatOptimizersAndClippingCannotDoIsSaid) {
  const Folder folder;
  for (const auto& [flags, words] : std::vector<std::pair<std::string, std::string>>{
           {"--schedule ssgd:compression=topk --replicas 2 --optimizer adam", "momentum twice"},
           {"--schedule pipedream:weights=predicted --optimizer adam", "nesterov"},
           {"--schedule fdg --clip-norm 1", "--clip-norm 1,scope=stage"},
           {"--schedule local-sgd --replicas 2 --clip-norm 1", "scope=stage"},
           {"--schedule ssd-sgd --replicas 2 --clip-norm 1,scope=stage", "cannot be clipped"},
           {"--schedule bp --clip-norm 0", "above 0"},
           {"--schedule bp --lr-scaling linear", "--lr-base-batch"},
           {"--schedule bp --lr-base-batch 64", "--lr-scaling"},
           {"--schedule bp --lr-scaling linaer --lr-base-batch 64", "linear"},
           {"--schedule bp --optimizer adam:beta3=0.9", "beta1"}}) {
    SCOPED_TRACE(flags);
    const Outcome outcome =
        folder.run(fmt::format("train --model mlp --data digits --stages 2 --steps 2 {}", flags));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr(words));
  }
}

TEST(BadInput, AChainThatDivergesIsAFailedCheck) {
  const Folder folder;
  const Outcome outcome = folder.run(
      "numerics --schedule bp --weights 1e308,1e308 --activation identity --batches 2 --json");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("diverged"));
  EXPECT_THAT(outcome.out, HasSubstr("null"));
}

TEST(BadInput, CopiesOnOneSetOfRanksNeedAStageEachOnEveryRank) {
  const Folder folder;
  ASSERT_EQ(folder.run("convert gpipe m.json --stages 1 --replicas 2").code, 0);
  std::string text = folder.read("m.json");
  const std::string replicas = ", \"replicas\": 2";
  ASSERT_NE(text.find(replicas), std::string::npos);
  text.erase(text.find(replicas), replicas.size());
  folder.write("m.json", text);
  const Outcome simulated = folder.run("simulate --schedule file:m.json");
  expect_refused(simulated);
  EXPECT_THAT(simulated.err, HasSubstr("every rank holds a stage of each"));
  const Outcome checked = folder.run("check m.json");
  EXPECT_EQ(checked.code, 2);
  EXPECT_THAT(checked.out, HasSubstr("every rank holds a stage of each"));
}

}  // namespace
}  // namespace unlatch::test
