// Training on a simulated clock, test curves, and schedules compared by what they learn in a time.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <sstream>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view network =
    " --model lenet --data digits --batch-size 32 --stages 3 --partition 4/4/3 ";

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

/// End of the last of some tasks, by batch, in the CSV of a simulation.
std::map<int, double> ends_of(const std::string& csv, const std::string& kind,
                              const std::string& stage = "") {
  std::map<int, double> ends;
  std::istringstream stream(csv);
  for (std::string line; std::getline(stream, line);) {
    std::vector<std::string> fields;
    std::istringstream row(line);
    for (std::string field; std::getline(row, field, ',');) fields.push_back(field);
    if (fields[1] != kind || (!stage.empty() && fields[2] != stage)) continue;
    double& end = ends[std::stoi(fields[3])];
    end = std::max(end, std::stod(fields[8]));
  }
  return ends;
}

// The same flags to `simulate` give the time of every loss and update.
TEST(SimulatedClock, KeepsTheTimeThatSimulatePredicts) {
  const Folder folder;
  for (const std::string schedule :
       {"bp", "1f1b --microbatches 4", "ddg", "fdg", "dsp", "adl:accumulate=2"}) {
    const std::string flags = fmt::format(
        " --schedule {} {} --cluster 4xP40 --straggler random:probability=0.3333,factor=1.5 "
        "--slow 1:1.25 --seed 3 ",
        schedule, network);
    ASSERT_EQ(folder.run("simulate --batches 24 --tasks tasks.csv" + flags).code, 0) << schedule;
    const json trained = folder.json("train --clock simulated --steps 24 --metrics m.jsonl" +
                                     flags + "--evaluate-every 8");
    const auto losses = ends_of(folder.read("tasks.csv"), "F", "2");
    const auto lines = lines_of(folder.read("m.jsonl"));
    ASSERT_EQ(lines.size(), 24U) << schedule;
    for (const json& line : lines) {
      EXPECT_DOUBLE_EQ(line["simulated_ms"], losses.at(line["batch"])) << schedule;
      EXPECT_GT(line["time_ms"], 0) << schedule;
    }
    double last_update = 0;
    for (const auto& [batch, end] : ends_of(folder.read("tasks.csv"), "U")) {
      last_update = std::max(last_update, end);
    }
    EXPECT_DOUBLE_EQ(trained["simulated"]["time_ms"], last_update) << schedule;
    EXPECT_DOUBLE_EQ(trained["test_curve"].back()["simulated_ms"], last_update) << schedule;
  }
}

// No stage is updated before the last gradient is there.
TEST(SimulatedClock, WaitsForTheNormOfAllStages) {
  const Folder folder;
  const std::string flags = fmt::format(" --schedule bp {} --cluster 4xP40 ", network);
  ASSERT_EQ(folder.run("simulate --batches 1 --tasks t.csv" + flags).code, 0);
  const double backward = ends_of(folder.read("t.csv"), "B").at(0);
  double update = 0;
  for (const char* task : {"0U0", "1U0", "2U0"}) {
    update = std::max(update, folder.length_ms("t.csv", task));
  }
  EXPECT_GT(update, folder.length_ms("t.csv", "0U0")) << "else an early update would do as well";
  const json trained = folder.json("train --clock simulated --steps 1 --clip-norm 1" + flags);
  EXPECT_DOUBLE_EQ(trained["simulated"]["time_ms"], backward + update);
}

TEST(SimulatedClock, ChangesNoBitOfWhatIsLearned) {
  const Folder folder;
  const std::string run = fmt::format("train --schedule dsp --steps 20 {}", network);
  ASSERT_EQ(folder.run(run + "--save plain.safetensors").code, 0);
  ASSERT_EQ(folder
                .run(run + "--save timed.safetensors --clock simulated --cluster 8xV100 "
                           "--slow 0:3 --evaluate-every 5")
                .code,
            0);
  EXPECT_EQ(folder.read("plain.safetensors"), folder.read("timed.safetensors"));
}

// Every stage's weights after the update of batch 12 are what a run of 12 batches ends with.
TEST(TestCurve, APointIsTheEndOfAShorterRun) {
  const Folder folder;
  for (const std::string schedule :
       {"bp", "1f1b --microbatches 2", "ddg", "fr", "fdg", "dsp", "pipedream",
        "pipedream-2bw --microbatches 4", "asgd --replicas 2"}) {
    const std::string run = fmt::format("train --schedule {} {}", schedule, network);
    const json longer = folder.json(run + "--steps 30 --evaluate-every 12");
    const json shorter = folder.json(run + "--steps 12");
    const json& curve = longer["test_curve"];
    ASSERT_EQ(curve.size(), 3U) << schedule;  // after 12, 24 and 30
    EXPECT_EQ(curve[0]["step"], 12) << schedule;
    EXPECT_EQ(curve[0]["test_loss"], shorter["test_loss"]) << schedule;
    EXPECT_EQ(curve[0]["test_accuracy"], shorter["test_accuracy"]) << schedule;
    EXPECT_EQ(curve[2]["test_loss"], longer["test_loss"]) << schedule;
    EXPECT_GT(curve[2]["time_ms"], curve[1]["time_ms"]) << schedule;
    EXPECT_EQ(curve[2]["simulated_ms"], nullptr) << schedule;
  }
}

TEST(TestCurve, StatisticsGoWithTheWeights) {
  const Folder folder;
  const std::string run =
      "train --schedule 1f1b --model resnet20:input=data,width=4 --data digits --batch-size 32 "
      "--stages 2 --partition uniform ";
  const json longer = folder.json(run + "--steps 8 --evaluate-every 4");
  const json shorter = folder.json(run + "--steps 4");
  EXPECT_EQ(longer["test_curve"][0]["test_loss"], shorter["test_loss"]);
}

TEST(CompareTraining, RanksByTheTimeToAnAccuracy) {
  const Folder folder;
  const std::string flags = fmt::format(
      "compare --train --schedule bp --schedule fdg {} --cluster 4xP40 --steps 60 "
      "--evaluate-every 5 --curves curves.svg ",
      network);
  const json compared = folder.json(flags);
  const double target = compared["target_accuracy"];
  double least_best = 1;
  for (const json& one : compared["schedules"]) {
    double best = 0, first = -1;
    for (const json& point : one["test_curve"]) {
      best = std::max(best, point["test_accuracy"].get<double>());
      if (first < 0 && point["test_accuracy"] >= target) first = point["simulated_ms"];
    }
    EXPECT_EQ(one["time_to_target_ms"], first);
    least_best = std::min(least_best, best);
  }
  EXPECT_EQ(target, least_best);
  EXPECT_LE(compared["schedules"][0]["time_to_target_ms"],
            compared["schedules"][1]["time_to_target_ms"]);
  EXPECT_THAT(folder.read("curves.svg"),
              AllOf(HasSubstr("<svg"), HasSubstr(">bp<"), HasSubstr(">fdg<"), HasSubstr("</svg>")));
  const Outcome unreachable = folder.run(flags + "--target-accuracy 1");
  EXPECT_THAT(unreachable.out, HasSubstr("never"));
}

TEST(CompareTraining, ASpeedUpIsOverBp) {
  const Folder folder;
  const std::string flags = fmt::format(
      "compare --train --schedule gpipe --schedule bp {} --cluster 4xP40 --microbatches 4 "
      "--steps 30 --evaluate-every 5 ",
      network);
  const std::string table = folder.run(flags).out;
  EXPECT_THAT(table, testing::ContainsRegex("bp[^\n]* 1\n"));
  const json compared = folder.json(flags);
  ASSERT_EQ(compared["schedules"][1]["schedule"], "gpipe") << "slow, or the test shows nothing";
}

TEST(CompareTraining, OneThatDivergesLeavesTheOthersTheirRank) {
  const Folder folder;
  const std::string flags = fmt::format(
      "compare --train --schedule dsp --schedule bp {} --cluster 4xP40 --steps 40 "
      "--optimizer momentum:momentum=0.9 --lr 1 ",
      network);
  const Outcome text = folder.run(flags);
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.err, AllOf(HasSubstr("warning: dsp"), HasSubstr("training diverged")));
  EXPECT_THAT(text.out,
              AllOf(testing::ContainsRegex("1  bp"), testing::ContainsRegex("2  dsp.*failed")));
  const Outcome outcome = folder.run(flags + "--json");
  EXPECT_EQ(outcome.code, 1);
  const json compared = json::parse(outcome.out)["schedules"];
  EXPECT_EQ(compared[0]["failed"], nullptr);
  EXPECT_THAT(compared[1]["failed"].get<std::string>(), HasSubstr("training diverged"));
  EXPECT_EQ(compared[1]["time_to_target_ms"], nullptr);
}

TEST(SimulatedClock, TakesNoProfileOfAnotherNetwork) {
  const Folder folder;
  ASSERT_EQ(folder
                .run("profile --model mlp:hidden=16 --data digits --batch-size 32 --samples 2 "
                     "--save profile.json")
                .code,
            0);
  const std::string train = "train --schedule bp --stages 2 --steps 2 --profile profile.json ";
  EXPECT_EQ(folder.run(train + "--model mlp:hidden=16 --data digits --batch-size 32").code, 0);
  for (const auto& [flags, message] :
       {std::pair{"--model mlp:hidden=17 --data digits --batch-size 32", "bytes of parameters"},
        {"--model lenet --data digits --batch-size 32", "layers"},
        {"--model mlp:hidden=16 --data synthetic:1x9x9 --batch-size 32", "samples have"}}) {
    const Outcome refused = folder.run(train + flags);
    expect_refused(refused);
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr("the profile is of mlp:hidden=16 on digits"), HasSubstr(message)));
  }
}

/// A network whose second convolution is all that `stride` changes.
std::string strided(int stride) {
  const json first{{"name", "c1"}, {"kind", "convolution"}, {"channels", 4}, {"padding", 1}};
  json second = first;
  second.update({{"name", "c2"}, {"stride", stride}});
  const json layers{first,
                    second,
                    {{"name", "pool"}, {"kind", "global_average_pool"}},
                    {{"name", "linear"}, {"kind", "linear"}, {"features", 10}}};
  return json{{"name", "strided"}, {"input", {1, 8, 8}}, {"layers", layers}}.dump();
}

// Names, parameters and samples are the same; only what the layers hand on is not.
TEST(SimulatedClock, TakesNoProfileOfAnotherStride) {
  const Folder folder;
  folder.write("one.json", strided(1));
  folder.write("two.json", strided(2));
  const std::string of = " --data digits --batch-size 8 ";
  ASSERT_EQ(folder.run("profile --model one.json --samples 2 --save p.json" + of).code, 0);
  const std::string train = "train --schedule bp --stages 2 --steps 1 --profile p.json" + of;
  EXPECT_EQ(folder.run(train + "--model one.json").code, 0);
  EXPECT_EQ(folder.run(train + "--model ./one.json").code, 0);
  const Outcome refused = folder.run(train + "--model two.json");
  expect_refused(refused);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("the profile is of one.json on digits"),
                                 HasSubstr("the output of its layer c2 has ")));
}

TEST(SimulatedClock, TakesNoProfileOfAnotherName) {
  const Folder folder;
  const std::string of = " --data digits --batch-size 8 ";
  ASSERT_EQ(folder.run("profile --model mlp --samples 2 --save p.json" + of).code, 0);
  const std::string train =
      "train --schedule bp --stages 2 --steps 1 --profile p.json --model mlp" + of;
  json file = json::parse(folder.read("p.json"));
  for (const auto& [name, code] : {std::pair("mlp:hidden=64/64", 0), {"foo", 2}, {"lenet", 2}}) {
    file["model"] = name;
    folder.write("p.json", file.dump());
    const Outcome outcome = folder.run(train);
    EXPECT_EQ(outcome.code, code) << name << outcome.err;
    const std::string refusal = fmt::format("the profile is of {}", name);
    EXPECT_EQ(outcome.err.find(refusal) != std::string::npos, code != 0) << outcome.err;
  }
}

TEST(SimulatedClock, SaysThatUpdatesAreOfAnotherOptimizer) {
  const Folder folder;
  const std::string of = " --model mlp --data digits --batch-size 8 ";
  ASSERT_EQ(folder.run("profile --samples 2 --save p.json" + of).code, 0);
  const std::string train = "train --schedule bp --stages 2 --steps 1 --profile p.json" + of;
  EXPECT_THAT(folder.run(train).err, Not(HasSubstr("warning")));
  const Outcome adam = folder.run(train + "--optimizer adam");
  EXPECT_EQ(adam.code, 0);
  EXPECT_THAT(adam.err, HasSubstr("warning: the profile is of updates by sgd, not by adam"));
}

// Its micro-batches were measured: only the comparison with BP is missing.
TEST(SimulatedClock, NeedsNoCostOfAWholeBatch) {
  const Folder folder;
  const std::string of = " --model mlp --data digits ";
  ASSERT_EQ(folder.run("profile --batch-size 16,32 --samples 2 --save p.json" + of).code, 0);
  const std::string run = "--schedule 1f1b --profile p.json --stages 2 --microbatches 4 ";
  const Outcome alone = folder.run("simulate --json --batch-size 64 " + run);
  EXPECT_EQ(alone.code, 0);
  EXPECT_THAT(alone.err, HasSubstr("no costs of a whole batch in one piece, 64 samples"));
  const json steady = json::parse(alone.out)["steady_state"];
  EXPECT_EQ(steady["speedup_over_bp"], nullptr);
  EXPECT_GT(steady["batch_period_ms"], 0);
  EXPECT_EQ(folder.run("compare --schedule gpipe --batch-size 64 " + run).code, 0);
  expect_refused(folder.run("compare --schedule bp --batch-size 64 " + run));
  expect_refused(folder.run("simulate --batch-size 256 " + run));
  EXPECT_GT(folder.json("simulate --batch-size 32 --schedule 1f1b --profile p.json --stages 2 "
                        "--microbatches 2")["steady_state"]["speedup_over_bp"],
            0);
}

TEST(SimulatedClock, RefusesWhatDoesNotFit) {
  const Folder folder;
  const std::string train = fmt::format("train --schedule bp --steps 2 {}", network);
  const std::string compare = fmt::format("compare --train --schedule bp --steps 2 {}", network);
  for (const auto& [command, message] : {
           std::pair{train + "--clock simulated", "--cluster NAME or --profile FILE"},
           {train + "--clock sundial", "measured"},
           {train + "--cluster 4xP40", "is for --clock simulated"},
           {train + "--slow 0:2", "is for --clock simulated"},
           {train + "--clock simulated --cluster 4xP41", "4xP41"},
           {train + "--clock simulated --cluster 4xP40 --slow 7:2", "7"},
           {train + "--evaluate-every 0", "--evaluate-every"},
           {train + "--evaluate-every often", "--evaluate-every"},
           {compare + "--forward 2", "--train"},
           {compare + "--batches 3", "--train"},
           {compare + "--target-accuracy 1.5", "--target-accuracy"},
           {std::string("compare --schedule bp --lr 0.1"), "is for --train"},
           {std::string("train --schedule asgd --replicas 2 --stages 2 --steps 9 --data digits "
                        "--model resnet20:input=data,width=4 --batch-size 32 --evaluate-every 2"),
            "running statistics"},
       }) {
    const Outcome refused = folder.run(command);
    expect_refused(refused);
    EXPECT_THAT(refused.err, HasSubstr(message)) << command;
  }
}

}  // namespace
}  // namespace unlatch::test
