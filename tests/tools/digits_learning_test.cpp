// Real learning: every schedule trains LeNet on the shipped digits to at least 97 % test accuracy;
// those with local gradients at rates of their own to what they were found to reach.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/variants.h"
#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

struct LearningCase {
  std::string schedule;
  int stages;
  int micro_batches = 1;
  int replicas = 1;
  double rate = 0.2;
};

void PrintTo(const LearningCase& c, std::ostream* out) {
  *out << fmt::format("{} --stages {} --microbatches {} --replicas {} --lr {}", c.schedule,
                      c.stages, c.micro_batches, c.replicas, c.rate);
}

/// One of three seeds must reach it: the sums of oneDNN's kernels, and so the last of these 359
/// test digits, differ from one kind of processor to the next as much as from seed to seed.
void expect_accuracy(double least, const std::string& flags) {
  const Folder folder;
  double best = 0;
  for (int seed = 0; seed < 3 && best < least; ++seed) {
    const nlohmann::json result = folder.json(fmt::format(
        "train --data digits --epochs 60 --lr-schedule linear --seed {} {}", seed, flags));
    ASSERT_EQ(result.at("test_samples").get<int>(), 359);
    best = std::max(best, result.at("test_accuracy").get<double>());
  }
  EXPECT_GE(best, least);
}

/// The methods that change the mathematics on two and on three stages, in their variants; of the
/// others, which only change the order of the same work, one run each on two ranks.
std::vector<LearningCase> cases() {
  std::vector<LearningCase> all;
  for (const char* schedule :
       {"bp", "gpipe", "gpipe:recompute=always", "1f1b", "ddg", "ddg:weights=in_place", "fr", "fdg",
        "fdg:order=bf", "fdg:shrink=0.7", "dsp", "adl", "adl:reduce=sum", "pipedream",
        "pipedream:weights=latest", "pipedream:weights=predicted", "pipedream-2bw"}) {
    const int parts = ScheduleSpec::parse(schedule).method().uses_micro_batches ? 4 : 1;
    for (const int stages : {2, 3}) all.push_back({schedule, stages, parts});
  }
  for (const int stages : {2, 3}) {
    all.push_back({.schedule = "pipedream:weights=vertical_sync", .stages = stages, .rate = 0.1});
  }
  // Two replicas of one and of two stages.
  for (const char* schedule :
       {"asgd", "asgd:compensation=constant", "asgd:inside=1f1b", "ssp:bound=0", "local-sgd",
        "ssd-sgd:warmup=100", "ssd-sgd:warmup=100,glu=b,local_rate=1", "ssgd"}) {
    const int parts = ScheduleSpec::parse(schedule).pipeline().uses_micro_batches ? 2 : 1;
    for (const int stages : {1, 2}) all.push_back({schedule, stages, parts, 2});
  }
  all.push_back({.schedule = "ssgd:compression=topk,ratio=0.05,step=45,warmup=5",
                 .stages = 2,
                 .replicas = 2,
                 .rate = 0.1});
  for (const Method& method : methods()) {
    const std::string name(method.name);
    const bool listed = std::ranges::any_of(all, [&](const LearningCase& c) {
      return ScheduleSpec::parse(c.schedule).method().name == method.name;
    });
    if (!method.synchronous || listed) continue;
    const int stages = 2 * method.chunks.usual;
    const int parts = testing_support::parts_that_run(
        ScheduleSpec::parse(name), {.stages = stages, .chunks = method.chunks.usual}, {4, 8});
    all.push_back({name, stages, std::max(parts, 1)});
  }
  return all;
}

class DigitsLearning : public testing::TestWithParam<LearningCase> {};

TEST_P(DigitsLearning, ReachesNinetySevenPercent) {
  const auto& [schedule, stages, micro_batches, replicas, rate] = GetParam();
  const int parts = micro_batches * replicas;
  const int batch_size = (16 + parts - 1) / parts * parts;
  expect_accuracy(0.97,
                  fmt::format("--schedule {} --stages {} --microbatches {} --replicas {} --lr {}"
                              " --model lenet --batch-size {} --weight-decay 0.005",
                              schedule, stages, micro_batches, replicas, rate, batch_size));
}

INSTANTIATE_TEST_SUITE_P(Catalogue, DigitsLearning, testing::ValuesIn(cases()));

/// Local gradients are others than those of back-propagation, and worse the more convolutions they
/// train: the bars lie about one point in a hundred below what runs of seed 0 reached, back-
/// propagation 97.8 % at a rate of 0.2.
struct LocalCase {
  std::string schedule;
  double rate;
  double mlp[2];  ///< least accuracy with 2 and 3 stages
  double lenet[2];
};

void PrintTo(const LocalCase& c, std::ostream* out) {
  *out << fmt::format("{} --lr {}", c.schedule, c.rate);
}

class LocalGradientsLearning : public testing::TestWithParam<LocalCase> {};

TEST_P(LocalGradientsLearning, ReachesWhatIsReported) {
  const LocalCase& c = GetParam();
  for (const bool is_mlp : {true, false}) {
    for (const int stages : {2, 3}) {
      SCOPED_TRACE(fmt::format("{} stages of {}", stages, is_mlp ? "mlp" : "lenet"));
      expect_accuracy((is_mlp ? c.mlp : c.lenet)[stages - 2],
                      fmt::format("--schedule {} --stages {} --lr {} --model {} --batch-size 32"
                                  " --weight-decay 0.001",
                                  c.schedule, stages, c.rate, is_mlp ? "mlp" : "lenet"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Catalogue, LocalGradientsLearning,
    testing::Values(LocalCase{"dgl", 0.2, {0.965, 0.96}, {0.97, 0.955}},
                    LocalCase{"dgl:mode=async,buffer=4", 0.2, {0.965, 0.96}, {0.97, 0.955}},
                    LocalCase{
                        "dni:conditional=yes,synth_lr=0.5", 0.05, {0.945, 0.945}, {0.945, 0.945}},
                    LocalCase{"dni:synth_lr=0.5", 0.02, {0.93, 0.915}, {0.895, 0.5}},
                    LocalCase{"dfa", 0.02, {0.94, 0.92}, {0.93, 0.88}}));

}  // namespace
}  // namespace unlatch::test
