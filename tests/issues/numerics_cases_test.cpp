// Acceptance cases about what is learnt: O38, O41, O43, O45 and O47, through the program.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <sstream>
#include <thread>

#include "models/safetensors.h"
#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(O38, LabelsBelongToTheirMicroBatchForEveryNumberOfThreads) {
  const Folder folder;
  for (const char* schedule : {"bp", "gpipe --microbatches 3", "1f1b --microbatches 3"}) {
    for (const int stages : {1, 2}) {
      for (const int threads : {1, 2, 8}) {
        const json run = folder.json(
            fmt::format("numerics --weights 2,3 --activation identity --x 1,2,3 --y 6,0,18 --lr 0 "
                        "--schedule {} --stages {} --threads {}",
                        schedule, stages, threads));
        EXPECT_EQ(run["losses"], json::parse("[0.0,72.0,0.0]")) << schedule;
      }
    }
  }
}

std::string chain(int weights) {
  std::vector<double> values(static_cast<std::size_t>(weights), 0.9);
  return fmt::format("numerics --schedule dsp --weights {}", fmt::join(values, ","));
}

int count(std::string_view text, std::string_view word) {
  int found = 0;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// DSP has two lanes a rank but the last, so a chain can ask for cores + P + 1 workers.
TEST(O41, MoreThreadsThanCoresAndRanksAreSaidOnceWithTheNumbers) {
  const Folder folder;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int ranks = cores + 2;
  const int lanes = 2 * ranks - 1;
  const Outcome usual = folder.run(chain(ranks) + " --json");
  EXPECT_EQ(usual.code, 0);
  EXPECT_EQ(usual.err, "");
  for (const int threads : {1, cores + 1, cores + ranks}) {
    const Outcome quiet = folder.run(fmt::format("{} --json --threads {}", chain(ranks), threads));
    EXPECT_EQ(quiet.err, "") << threads;
    EXPECT_EQ(quiet.out, usual.out) << threads;
  }
  for (const int threads : {lanes, lanes + 100}) {
    const Outcome many = folder.run(fmt::format("{} --json --threads {}", chain(ranks), threads));
    EXPECT_EQ(many.code, 0);
    EXPECT_EQ(count(many.err, "warning"), 1);
    EXPECT_THAT(many.err, AllOf(HasSubstr(fmt::format("{} workers x 1 maths thread", lanes)),
                                HasSubstr(fmt::format("{} cores", cores))));
    EXPECT_EQ(many.out, usual.out);
  }
}

std::vector<double> losses(const Folder& folder, const std::string& arguments) {
  const Outcome outcome = folder.run(fmt::format("train {} --metrics m.jsonl", arguments));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("error")));
  std::istringstream lines(folder.read("m.jsonl"));
  std::vector<double> values;
  for (std::string line; std::getline(lines, line);) values.push_back(json::parse(line)["loss"]);
  return values;
}

TEST(O41, LossesAreTheSameForEveryNumberOfThreads) {
  const Folder folder;
  const std::string run = "--schedule dsp --stages 4 --model mlp --data digits --steps 12";
  const std::vector<double> usual = losses(folder, run);
  EXPECT_EQ(usual.size(), 12u);
  for (const int threads : {1, 2, 4, 7}) {
    EXPECT_EQ(losses(folder, fmt::format("{} --threads {}", run, threads)), usual) << threads;
  }
}

// The gradient of micro-batch i is 1, 2, 3, 4: (w0 w1 x - y) x w1 with w0 = 10, w1 = 1.
TEST(O43, AccumulationRoundsAreAveragedOnce) {
  const Folder folder;
  for (const char* schedule :
       {"gpipe", "gpipe:backward=ascending", "gpipe:recompute=always", "1f1b"}) {
    for (const char* weights : {"10", "10,1"}) {
      const json run = folder.json(fmt::format(
          "numerics --schedule {} --microbatches 4 --weights {} --activation identity --lr 1 "
          "--x 1,1,1,1 --y 9,8,7,6",
          schedule, weights));
      EXPECT_EQ(run["final"][0], 7.5) << schedule << " " << weights;
    }
  }
}

TEST(O43, GradientsAreMeansOverTheBatchOnOneStageAndTwo) {
  const Folder folder;
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (const int stages : {1, 2}) {
      const json run = folder.json(fmt::format(
          "numerics --schedule {} --stages {} --microbatches 8 --weights 2,3 --activation identity "
          "--lr 1 --x 1,2,3,4,1,2,3,4 --y 6,12,18,24,0,0,0,0",
          schedule, stages));
      EXPECT_EQ(run["losses"], json::parse("[0.0,0.0,0.0,0.0,18.0,72.0,162.0,288.0]"));
      EXPECT_EQ(run["weights_by_update"], json::parse("[[2.0,-65.5],[3.0,-42.0]]"));
    }
  }
}

struct FdgTicks {
  const char* keys;
  std::vector<double> losses;  ///< of batches 0..4, in ticks 1..5
  std::vector<double> w0;      ///< after ticks 2..5
  std::vector<double> w1;      ///< after ticks 1..5
};

TEST(O45, FdgMeetsTheTableTickByTick) {
  const Folder folder;
  const FdgTicks tables[] = {
      {"order=bf,shrink=1",
       {0, 0.5, 1.90125, 0.335995, 1.959383},
       {0.5, 0.1, -0.2705, -0.12274},
       {2.0, 1.9, 1.8025, 1.810698, 1.703602}},
      {"order=bf,shrink=0.5",
       {0, 0.5, 1.90125, 0.105455, 0.17004},
       {0.5, 0.3, 0.11475, 0.15614},
       {2.0, 1.9, 1.8025, 1.816277, 1.829661}},
      {"order=fb,shrink=1",
       {0, 0.5, 1.90125, 0.004876, 0.203849},
       {0.5, 0.1, -0.2705, -0.2527},
       {2.0, 1.9, 1.8025, 1.807438, 1.820208}},
      {"order=fb,shrink=0.5",
       {0, 0.5, 1.90125, 0.004876, 0.003567},
       {0.5, 0.3, 0.11475, 0.12365},
       {2.0, 1.9, 1.8025, 1.807438, 1.80237}},
  };
  constexpr double six_digits = 5.001e-7;
  for (const FdgTicks& table : tables) {
    SCOPED_TRACE(table.keys);
    const json run = folder.json(fmt::format(
        "numerics --schedule fdg:{} --weights 0.5,2 --activation identity --x 1,2,-1,1,2,1 "
        "--y 1,1,1,1,1,1",
        table.keys));
    EXPECT_THAT(table.keys, HasSubstr(run["parameters"]["order"].get<std::string>()));
    for (std::size_t n = 0; n < 5; ++n) {
      EXPECT_NEAR(run["losses"][n].get<double>(), table.losses[n], six_digits);
      EXPECT_NEAR(run["weights_by_update"][1][n + 1].get<double>(), table.w1[n], six_digits);
      if (n == 4) continue;
      EXPECT_NEAR(run["weights_by_update"][0][n + 1].get<double>(), table.w0[n], six_digits);
    }
  }
}

TEST(O45, ThreeModulesShrinkByBetaSquaredAtTheFirst) {
  const Folder folder;
  const auto step = [&](const char* shrink) {
    const json run = folder.json(fmt::format(
        "numerics --schedule fdg:shrink={} --weights 0.5,2,1.5 --activation identity --x 1 --y 1",
        shrink));
    std::vector<double> steps;
    for (const json& weight : run["weights_by_update"]) {
      steps.push_back(weight[1].get<double>() - weight[0].get<double>());
    }
    return steps;
  };
  const auto plain = step("1"), shrunk = step("0.5");
  EXPECT_DOUBLE_EQ(shrunk[0], plain[0] / 4);
  EXPECT_DOUBLE_EQ(shrunk[1], plain[1] / 2);
  EXPECT_DOUBLE_EQ(shrunk[2], plain[2]);
  EXPECT_NE(plain[0], 0);
}

/// Four layers with weights, three of them of one shape.
const std::string four_layers =
    "--model mlp:hidden=64/64/64 --data digits --batch-size 32 --seed 1 --steps 1";

TEST(O47, InitialWeightsAreTheSameBitsForEveryCut) {
  const Folder folder;
  for (const int stages : {1, 2, 4}) {
    for (const int parts : {1, 2, 4}) {
      const Outcome outcome = folder.run(fmt::format(
          "train --schedule gpipe --lr 1e-30 --stages {} --microbatches {} --save w{}{} {}", stages,
          parts, stages, parts, four_layers));
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_EQ(folder.read(fmt::format("w{}{}", stages, parts)), folder.read("w11"));
    }
  }
  const models::TensorFile file = models::read_safetensors(folder.file("w11"));
  int pairs = 0;
  for (const auto& a : file.tensors) {
    for (const auto& b : file.tensors) {
      if (a.name >= b.name || a.shape != b.shape) continue;
      ++pairs;
      EXPECT_NE(a.values, b.values) << a.name << " and " << b.name;
    }
  }
  EXPECT_EQ(pairs, 3 + 3);  // weights and biases of three equal layers
}

TEST(O47, TheFirstLossIsTheSameForEveryCut) {
  const Folder folder;
  const double first = losses(folder, "--schedule bp --stages 1 " + four_layers).at(0);
  for (const int stages : {1, 2, 4}) {
    for (const int parts : {1, 2, 4}) {
      const double loss =
          losses(folder, fmt::format("--schedule 1f1b --stages {} --microbatches {} "
                                     "{}",
                                     stages, parts, four_layers))
              .at(0);
      EXPECT_NEAR(loss / first, 1, 1e-6) << stages << " stages, " << parts << " parts";
    }
    for (const char* schedule : {"ddg", "fr", "fdg", "dsp"}) {
      EXPECT_EQ(
          losses(folder, fmt::format("--schedule {} --stages {} {}", schedule, stages, four_layers))
              .at(0),
          first)
          << schedule;
    }
  }
}

/// |a - b| / |b| over all weights.
double relative_distance(const models::TensorFile& a, const models::TensorFile& b) {
  double difference = 0, size = 0;
  for (std::size_t t = 0; t < b.tensors.size(); ++t) {
    for (std::size_t i = 0; i < b.tensors[t].values.size(); ++i) {
      difference += std::pow(a.tensors[t].values[i] - b.tensors[t].values[i], 2);
      size += std::pow(b.tensors[t].values[i], 2);
    }
  }
  return std::sqrt(difference / size);
}

// Section 15, item 6 of the decoupled methods, on a real network without batch norm.
TEST(SynchronousSchedules, LeaveTheWeightsOfBackPropagation) {
  const Folder folder;
  const std::string rest =
      " --model lenet --data digits --batch-size 32 --steps 20 --lr 0.05 --save w";
  const auto trained = [&](const std::string& arguments) {
    const Outcome outcome = folder.run(fmt::format("train --schedule {} {}", arguments, rest));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return models::read_safetensors(folder.file("w"));
  };
  const models::TensorFile bp = trained("bp --stages 2");
  EXPECT_GT(relative_distance(trained("dsp --stages 2"), bp), 1e-4);  // another method is far away
  for (const char* schedule : {"gpipe", "gpipe:recompute=always", "1f1b"}) {
    for (const int parts : {1, 2, 4, 8}) {
      EXPECT_LT(relative_distance(
                    trained(fmt::format("{} --stages 3 --microbatches {}", schedule, parts)), bp),
                1e-5)
          << schedule << " " << parts;
    }
  }
}

}  // namespace
}  // namespace unlatch::test
