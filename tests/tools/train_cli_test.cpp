// unlatch numerics, train, eval and profile: short real runs.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>
#include <sstream>
#include <vector>

#include "models/safetensors.h"
#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// O38: labels belong to their own micro-batch. z = 6x.
TEST(Numerics, MeetsInputsWithTheirOwnTargets) {
  const Folder folder;
  for (const char* schedule : {"bp --microbatches 1", "gpipe --microbatches 3",
                               "1f1b --microbatches 3", "gpipe --microbatches 3 --stages 1"}) {
    const json run = folder.json(fmt::format(
        "numerics --weights 2,3 --activation identity --x 1,2,3 --y 6,0,18 --lr 0 --schedule {}",
        schedule));
    EXPECT_EQ(run["losses"], json::parse("[0.0,72.0,0.0]")) << schedule;
    EXPECT_EQ(run["final"], json::parse("[2.0,3.0]"));
  }
}

// O43: mean gradients 67.5 and 45; one step of rate 1 shows them.
TEST(Numerics, ScalesAGradientOnce) {
  const Folder folder;
  const json run = folder.json(
      "numerics --schedule 1f1b --microbatches 8 --weights 2,3 "
      "--activation identity --lr 1 --x 1,2,3,4,1,2,3,4 "
      "--y 6,12,18,24,0,0,0,0");
  EXPECT_EQ(run["weights_by_update"], json::parse("[[2.0,-65.5],[3.0,-42.0]]"));
}

TEST(Numerics, CutsTheChainWithLargerStagesFirst) {
  const Folder folder;
  const json one = folder.json("numerics --schedule bp --weights 0.9,-0.8,1.1 --stages 1");
  const json two = folder.json("numerics --schedule bp --weights 0.9,-0.8,1.1 --stages 2");
  EXPECT_EQ(one["weights_by_update"], two["weights_by_update"]);
  EXPECT_EQ(one["losses"].size(), 12u);
  EXPECT_EQ(one["weights_by_update"][0].size(), 13u);
}

const std::string mlp = " --model mlp --data digits";

TEST(Train, KeepsWhatItsTensorsMakeThePredictionSay) {
  const Folder folder;
  for (const char* schedule :
       {"1f1b --microbatches 4", "gpipe:recompute=except_last --microbatches 4",
        "zb-h1 --microbatches 4", "pipedream --optimizer momentum", "fr --optimizer amsgrad",
        "dgl --optimizer adam", "ssgd --replicas 2"}) {
    SCOPED_TRACE(schedule);
    const json run = folder.json(fmt::format(
        "train --model lenet --data digits --stages 2 --steps 6 --schedule {}", schedule));
    const json& measured = run["measured"];
    for (const json& rank : measured["memory_detail"]) {
      EXPECT_GT(rank["kept_peak_bytes"], 0);
      EXPECT_EQ(rank["kept_peak_bytes"], rank["predicted_peak_of_tensors_bytes"]);
      EXPECT_GE(rank["kept_peak_with_queues_bytes"], rank["kept_peak_bytes"]);
      EXPECT_GE(rank["predicted_peak_with_queues_bytes"], rank["kept_peak_bytes"]);
      const json& detail = measured["ranks_detail"][rank["rank"].get<std::size_t>()];
      EXPECT_EQ(rank["kept_peak_bytes"], detail["peak_memory_bytes"]);
      EXPECT_EQ(rank["kept_peak_activations"], detail["peak_activations"]);
      EXPECT_EQ(rank["kept_peak_inputs"], detail["peak_inputs"]);
      EXPECT_EQ(rank["kept_peak_weight_versions"], detail["peak_weight_versions"]);
      EXPECT_FALSE(rank.contains("pool"));
    }
    EXPECT_EQ(measured["memory_detail"].size(), measured["ranks_detail"].size());
  }
}

/// One value of every line of the metrics file m.jsonl.
std::vector<double> values_of(const Folder& folder, const char* key) {
  std::istringstream lines(folder.read("m.jsonl"));
  std::vector<double> values;
  for (std::string line; std::getline(lines, line);) {
    values.push_back(json::parse(line)[key].get<double>());
  }
  return values;
}

/// Losses of the batches of a run.
std::vector<double> losses_of(const Folder& folder, const std::string& flags) {
  folder.json(
      fmt::format("train --schedule 1f1b --stages 2 --microbatches 2 --batch-size 32 "
                  "--steps 80 --metrics m.jsonl {}{}",
                  flags, mlp));
  return values_of(folder, "loss");
}

// 64 samples in micro-batches of 22, 21 and 21 learn as the 64 together, and dropout draws the
// same; an epoch of 1437 digits ends with a batch of 29.
TEST(Train, MicroBatchesOfDifferentSizesWeighByTheirSamples) {
  const Folder folder;
  folder.write("net.json", R"({"name": "n", "input": [1, 8, 8], "layers": [
    {"name": "a", "kind": "linear", "features": 24}, {"name": "b", "kind": "relu"},
    {"name": "c", "kind": "dropout", "probability": 0.5},
    {"name": "d", "kind": "linear", "features": 10}]})");
  const auto losses = [&](const std::string& flags) {
    folder.json(
        "train --model net.json --data digits --epochs 1 --lr 0.5 --uneven yes --metrics "
        "m.jsonl " +
        flags);
    return values_of(folder, "loss");
  };
  const std::vector<double> whole = losses("--schedule bp --stages 1");
  EXPECT_EQ(whole.size(), 23u);
  EXPECT_LT(whole.back(), 0.8 * whole.front());
  for (const char* flags : {"--schedule gpipe --stages 2 --microbatches 3",
                            "--schedule zb-h1 --stages 3 --microbatches 5 --threads 2"}) {
    const std::vector<double> parts = losses(flags);
    ASSERT_EQ(parts.size(), whole.size());
    for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_NEAR(parts[n], whole[n], 1e-4 * whole[n]);
  }
}

// 1437 digits: 10 batches of 16, 10 of 32 .. up to 64; the rate goes with them.
TEST(Train, BatchesGrowUpARamp) {
  const Folder folder;
  folder.json(
      "train --schedule fdg --stages 2 --steps 40 --batch-ramp start=16,step=16,every=10 "
      "--lr-scaling linear --lr-base-batch 64 --lr 0.4 --metrics m.jsonl" +
      mlp);
  const std::vector<double> rates = values_of(folder, "lr");
  ASSERT_EQ(rates.size(), 40u);
  for (std::size_t n = 0; n < 40; ++n) EXPECT_DOUBLE_EQ(rates[n], 0.1 * (1.0 + double(n / 10)));
}

TEST(Train, EpochsOfARampAreThoseOfTheData) {
  const Folder folder;
  const json run = folder.json(
      "train --schedule fdg --stages 2 --epochs 3 --batch-size 128 "
      "--batch-ramp start=16,step=16,every=20 --lr-schedule step:at=1/2,factor=0.5,warmup_epochs=1 "
      "--lr 0.4 --evaluate-every epoch --metrics m.jsonl" +
      mlp);
  const std::vector<double> rates = values_of(folder, "lr"), epochs = values_of(folder, "epoch");
  ASSERT_EQ(epochs.back(), 2);
  const auto begin = [&](double epoch) {
    return std::ranges::find(epochs, epoch) - epochs.begin();
  };
  for (int n = 0; n < begin(1); ++n) EXPECT_DOUBLE_EQ(rates[n], 0.4 * n / double(begin(1)));
  EXPECT_DOUBLE_EQ(rates[begin(1)], 0.2);
  EXPECT_DOUBLE_EQ(rates[begin(2) - 1], 0.2);
  EXPECT_DOUBLE_EQ(rates[begin(2)], 0.1);
  ASSERT_EQ(run["test_curve"].size(), 3u);
  EXPECT_EQ(run["test_curve"][0]["step"], begin(1));
  EXPECT_EQ(run["test_curve"][1]["step"], begin(2));
}

/// Of a file of --save, one tensor behind the other.
std::vector<double> weights_in(const Folder& folder, const std::string& name) {
  std::vector<double> all;
  for (const auto& tensor : models::read_safetensors(folder.file(name)).tensors) {
    all.insert(all.end(), tensor.values.begin(), tensor.values.end());
  }
  return all;
}

// A step of plain SGD is the rate times the gradient.
TEST(Train, SaysTheNormOfEveryGradientThatItMayClip) {
  const Folder folder;
  for (const char* schedule :
       {"bp --stages 3", "1f1b --stages 2 --microbatches 4", "ssgd --replicas 2 --stages 2"}) {
    SCOPED_TRACE(schedule);
    const std::string run = fmt::format(
        "train --model mlp:hidden=32 --data digits --steps 1 --optimizer sgd --clip-norm 1000 "
        "--metrics m.jsonl --schedule {} ",
        schedule);
    folder.json(run + "--lr 1e-30 --save before");
    folder.json(run + "--lr 1 --save after");
    const std::vector<double> norms = values_of(folder, "gradient_norm");
    const std::vector<double> before = weights_in(folder, "before"),
                              after = weights_in(folder, "after");
    ASSERT_EQ(before.size(), after.size());
    double squares = 0;
    for (std::size_t j = 0; j < before.size(); ++j) squares += std::pow(after[j] - before[j], 2);
    ASSERT_EQ(norms.size(), 1u);
    EXPECT_NEAR(norms[0], std::sqrt(squares), 1e-4 * norms[0]);
  }
  folder.json("train --model mlp --data digits --steps 1 --schedule bp --metrics m.jsonl");
  EXPECT_EQ(json::parse(folder.read("m.jsonl"))["gradient_norm"], nullptr);
}

TEST(Train, SeveralSizesAreRefusedWhereOneIsMeant) {
  const Folder folder;
  const std::string run = "train --schedule fdg --stages 2 --batch-size 50 " + mlp + " ";
  expect_refused(folder.run(run + "--batch-ramp start=60,step=1,every=1"));
  expect_refused(folder.run(run + "--batch-ramp start=1,step=1"));
  const Outcome heads = folder.run("train --schedule dgl --stages 2 --uneven yes" + mlp);
  expect_refused(heads);
  EXPECT_THAT(heads.err, HasSubstr("local heads"));
  const Outcome timed = folder.run(run + "--uneven yes --clock simulated --cluster 4xP40");
  expect_refused(timed);
  EXPECT_THAT(timed.err, HasSubstr("micro-batches of 50 and 38 samples"));
}

TEST(Train, LearnsTheDigitsByEveryOptimizer) {
  const Folder folder;
  struct Case {
    const char* optimizer;
    double rate;
  };
  for (const auto& [optimizer, rate] : {Case{"sgd", 0.2},
                                        {"momentum", 0.05},
                                        {"nesterov", 0.05},
                                        {"sum", 0.05},
                                        {"adagrad", 0.02},
                                        {"adadelta", 1},
                                        {"rmsprop", 0.002},
                                        {"adam", 0.003},
                                        {"adamw", 0.003},
                                        {"adamax", 0.005},
                                        {"nadam", 0.003},
                                        {"amsgrad", 0.003},
                                        {"radam", 0.02},
                                        {"lars:trust=0.2", 0.1},
                                        {"lamb", 0.01}}) {
    SCOPED_TRACE(optimizer);
    const std::vector<double> losses =
        losses_of(folder, fmt::format("--optimizer {} --lr {}", optimizer, rate));
    ASSERT_EQ(losses.size(), 80u);
    const double last = std::accumulate(losses.end() - 10, losses.end(), 0.0) / 10;
    EXPECT_GT(losses.front(), 2.0);
    EXPECT_LT(last, 1.2);
  }
}

TEST(Train, ScalesClipsAndWarmsUp) {
  const Folder folder;
  const std::string adam = "--optimizer adam --clip-norm 1 ";
  const auto scaled = losses_of(
      folder, adam + "--lr 0.002 --lr-schedule constant --lr-scaling linear --lr-base-batch 16");
  EXPECT_EQ(losses_of(folder, adam + "--lr 0.004"), scaled);
  EXPECT_EQ(losses_of(folder, adam + "--lr 0.008 --lr-scaling sqrt --lr-base-batch 128"), scaled);
  EXPECT_NE(losses_of(folder, "--optimizer adam --lr 0.004"), scaled) << "nothing was clipped";
  const auto rising =
      losses_of(folder, "--lr 0.2 --lr-schedule polynomial:power=2,warmup_epochs=0.5,start=0.1");
  EXPECT_LT(rising.back(), rising.front());
}

TEST(Train, LeavesWeightsThatEvalReadsBack) {
  const Folder folder;
  const json run = folder.json(
      "train --schedule dsp --stages 2 --epochs 3 --batch-size 32 "
      "--lr 0.05 --save w.safetensors --metrics m.jsonl --trace t.json.gz "
      "--tasks t.csv" +
      mlp);
  EXPECT_GT(run["test_accuracy"].get<double>(), 0.5);
  EXPECT_EQ(run["steps"], 3 * (1438 / 32));
  EXPECT_EQ(run["measured"]["stages_detail"][0]["forward_staleness"], 2);
  EXPECT_GT(run["measured"]["makespan_ms"].get<double>(), 0);
  const json back = folder.json("eval --weights w.safetensors" + mlp);
  EXPECT_EQ(back["accuracy"], run["test_accuracy"]);
  EXPECT_EQ(back["samples"], 359);
  std::istringstream lines(folder.read("m.jsonl"));
  int steps = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(json::parse(line)["step"], ++steps);
  }
  EXPECT_EQ(steps, run["steps"]);
  EXPECT_EQ(folder.run("diff t.csv t.json.gz").code, 0);
  const Outcome other = folder.run("eval --weights w.safetensors --model lenet --data digits");
  expect_refused(other);
  EXPECT_THAT(other.err, HasSubstr("conv1.weight"));
}

TEST(Train, TakesAResidualNetworkThroughEveryCommand) {
  const Folder folder;
  const std::string what =
      " --model resnet18:input=data,width=8 --data synthetic:3x64x64,samples=200";
  double accuracy = 0;
  for (const int stages : {1, 2, 4}) {
    const json run = folder.json(fmt::format(
        "train --schedule 1f1b --batch-size 20 --epochs 3 --lr 0.05 --stages {} --save w{}{}",
        stages, stages, what));
    EXPECT_EQ(run["steps"], 30);
    EXPECT_EQ(run["partition"].size(), static_cast<std::size_t>(stages));
    accuracy = run["test_accuracy"].get<double>();
    EXPECT_GT(accuracy, 0.4) << "a tenth is chance";
  }
  EXPECT_EQ(folder.read("w1"), folder.read("w2"));
  EXPECT_EQ(folder.read("w1"), folder.read("w4"));
  EXPECT_THAT(folder.read("w1"), HasSubstr("\"layer2.0.downsample.0.weight\""));
  EXPECT_EQ(folder.json(fmt::format("eval --weights w4{}", what))["accuracy"], accuracy);

  folder.json(fmt::format(
      "profile --batch-size 5,20 --samples 1 --warm-up 1 --workers 1 --save p.json{}", what));
  const json simulated = folder.json(
      "simulate --schedule 1f1b --profile p.json --stages 4 --batch-size 20 --microbatches 4");
  EXPECT_EQ(simulated["partition"].size(), 4u);
  EXPECT_EQ(folder.json(fmt::format("partition --stages 4{}", what))["stages"].size(), 4u);
}

TEST(Train, GivesTheSameWeightsForEveryNumberOfThreads) {
  const Folder folder;
  for (const char* threads : {"1", "2", "3"}) {
    const Outcome outcome =
        folder.run(fmt::format("train --schedule fdg --stages 3 --steps 20 --threads {} "
                               "--save w{}{}",
                               threads, threads, mlp));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  EXPECT_EQ(folder.read("w1"), folder.read("w2"));
  EXPECT_EQ(folder.read("w1"), folder.read("w3"));
}

// Whoever follows the file sees the batches until then; the rate is in every line.
TEST(Train, LeavesTheLossesOfARunThatDiverged) {
  const Folder folder;
  const Outcome outcome = folder.run(
      "train --schedule bp --stages 2 --epochs 2 --lr 1e20 --lr-schedule linear --metrics m.jsonl" +
      mlp);
  expect_refused(outcome, 1);
  const std::string lines = folder.read("m.jsonl");
  const json first = json::parse(lines.substr(0, lines.find('\n')));
  EXPECT_EQ(first["step"], 1);
  EXPECT_EQ(first["lr"], 1e20);
  EXPECT_EQ(lines.back(), '\n');
}

TEST(Train, EndsWithOneWhenTheLossIsNoNumber) {
  const Folder folder;
  const Outcome outcome =
      folder.run("train --schedule bp --stages 2 --epochs 2 --lr 1e20 --save w" + mlp);
  expect_refused(outcome, 1);
  EXPECT_THAT(outcome.err, HasSubstr("diverged"));
  EXPECT_EQ(folder.files(), 0);
}

// The shell holds the pipe open, so the program fills it and then waits, however slow the machine.
TEST(Train, LeavesNothingBehindWhenItIsInterrupted) {
  const Folder folder;
  for (const auto& [signal, code] : {std::pair{"INT", 130}, {"TERM", 143}}) {
    folder.write("go.sh", fmt::format("mkfifo pipe; exec 3<>pipe\n"
                                      "'{}' train --schedule bp --stages 2 --epochs 2000 "
                                      "--save w --metrics pipe{} & child=$!\n"
                                      "head -c 1 <&3 >first; kill -{} $child; wait $child\n",
                                      UNLATCH_PROGRAM, mlp, signal));
    const Outcome outcome = folder.run(
        "--version >/dev/null; sh go.sh 2>stderr; code=$?; rm -f pipe first go.sh; exit $code");
    EXPECT_EQ(outcome.code, code);
    EXPECT_THAT(outcome.err, HasSubstr("unfinished files are gone"));
    EXPECT_EQ(folder.files(), 0);
  }
}

TEST(Profile, MeasuresWhatSimulateReads) {
  const Folder folder;
  const json profile = folder.json(
      "profile --batch-size 8,32 --samples 2 --warm-up 1 --workers 1 "
      "--save p.json" +
      mlp);
  EXPECT_EQ(profile, json::parse(folder.read("p.json")));
  ASSERT_EQ(profile["profiles"].size(), 2u);
  const std::string run = "simulate --schedule gpipe --profile p.json --stages 2 ";
  const json simulated = folder.json(run + "--batch-size 32 --microbatches 2");
  EXPECT_GT(simulated["makespan_ms"].get<double>(), 0);
  EXPECT_EQ(simulated["partition"][0].get<int>() + simulated["partition"][1].get<int>(), 5);
  const Outcome outside = folder.run(run + "--batch-size 64");
  expect_refused(outside);
  EXPECT_THAT(outside.err, HasSubstr("8, 32"));
  expect_refused(folder.run(run + "--batch-size 32 --forward 1"));
  const json train = folder.json(
      "train --schedule bp --stages 2 --steps 20 --batch-size 32 "
      "--profile p.json" +
      mlp);
  EXPECT_GT(train["predicted"]["batch_period_ms"].get<double>(), 0);
}

// Four stages of F = 1 ms and B = 2 ms, all at once in the steady state of FDG.
TEST(Profile, RanksShareAsManyWorkersAsAsked) {
  const Folder folder;
  json profile = folder.json("profile --batch-size 32 --samples 1 --workers 1 --save p.json" + mlp);
  json& measured = profile["profiles"][0];
  ASSERT_EQ(measured["layers"].size(), 5u);
  const auto set = [](json& times, double us) {
    for (auto& value : times) value = us;
  };
  for (const char* piece : {"input_us", "target_us", "loss_us", "overhead_us"}) {
    set(measured[piece], 0);
  }
  set(measured["step_us"], 12e3);
  for (std::size_t j = 0; j < 5; ++j) {
    json& layer = measured["layers"][j];
    const double share = j < 3 ? 1000 : 500;  // the last two are one stage
    for (const char* piece : {"forward_us", "forward_only_us"}) set(layer[piece], share);
    set(layer["backward_us"], 2 * share);
    set(layer["update_us"], 0);
  }
  for (json& layer : profile["handovers"][0]["layers"]) set(layer, 0);
  folder.write("p.json", profile.dump());
  const std::string run =
      "simulate --schedule fdg --profile p.json --stages 4 --partition 1/1/1/2 --batch-size 32 ";
  for (const auto& [threads, period] :
       {std::pair(1, 12.0), {2, 6.0}, {3, 6.0}, {4, 3.0}, {9, 3.0}}) {
    const json simulated = folder.json(fmt::format("{} --threads {}", run, threads));
    EXPECT_EQ(simulated["steady_state"]["batch_period_ms"], period) << threads;
  }
  EXPECT_THAT(folder.run(run + "--threads 2").err,
              HasSubstr("4 ranks take turns on 2 worker threads"));
  const Outcome abstract = folder.run("simulate --schedule fdg --threads 2");
  expect_refused(abstract);
  EXPECT_THAT(abstract.err, HasSubstr("--profile"));
}

// A cut costs the layer before it (1) and the one behind it (2), forwards and backwards.
TEST(Profile, HandOverIsChargedAtTheCuts) {
  const Folder folder;
  json profile = folder.json("profile --batch-size 32 --samples 2 --workers 1 --save p.json" + mlp);
  json& layers = profile["handovers"][0]["layers"];
  ASSERT_EQ(layers.size(), 5u);
  const auto simulated = [&] {
    folder.write("p.json", profile.dump());
    return folder
        .json("simulate --schedule bp --profile p.json --stages 2 --partition 2/3 --batch-size 32")
        .at("makespan_ms")
        .get<double>();
  };
  for (json& layer : layers) {
    for (auto& cost : layer) cost = 0;
  }
  const double free = simulated();
  layers[1]["forward_out_us"] = 1e6;
  layers[1]["backward_in_us"] = 2e6;
  layers[2]["forward_in_us"] = 4e6;
  layers[2]["backward_out_us"] = 8e6;
  EXPECT_NEAR(simulated() - free, 15e3, 1e-4);
  for (const char* elsewhere : {"forward_in_us", "backward_out_us"}) layers[1][elsewhere] = 1e6;
  for (const char* elsewhere : {"forward_out_us", "backward_in_us"}) layers[2][elsewhere] = 1e6;
  EXPECT_NEAR(simulated() - free, 15e3, 1e-4);
}

}  // namespace
}  // namespace unlatch::test
