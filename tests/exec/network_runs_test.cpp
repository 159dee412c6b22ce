// Whole networks through the executor: the cut, the micro-batches and the threads change nothing.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "schedules/registry.h"
#include "tests/exec/network_run.h"
#include "tests/support/variants.h"

namespace unlatch::exec {
namespace {

TEST(NetworkRuns, BackPropagationIsTheSameBitForBitHoweverTheModelIsCut) {
  for (const std::string model :
       {"lenet", "resnet20:input=data,width=8", "lenet:dropout=0.4",
        "wrn-10-2:input=data,width=4,dropout=0.3", "preresnet11:input=data,width=4",
        "resnext11:input=data,width=2,cardinality=4"}) {
    const std::vector<float> whole = train({.model = model});
    for (const int stages : {2, 4}) {
      EXPECT_EQ(train({.model = model, .stages = stages}), whole) << model << " " << stages;
    }
  }
}

TEST(NetworkRuns, EveryOptimizerIsTheSameBitForBitHoweverTheModelIsCut) {
  for (const std::string_view optimizer : models::optimizer_names()) {
    const std::string text = std::string(optimizer) + ":decay=0.01";
    const std::vector<float> whole = train({.optimizer = text});
    for (const int stages : {2, 3, 4}) {
      EXPECT_EQ(train({.stages = stages, .optimizer = text}), whole) << text << " " << stages;
    }
  }
  for (const char* per_tensor : {"lars", "lamb"}) {
    const NetworkRun run{.model = "resnet20:input=data,width=8", .optimizer = per_tensor};
    NetworkRun cut = run;
    cut.stages = 3;
    EXPECT_EQ(train(cut), train(run)) << per_tensor;
  }
}

TEST(NetworkRuns, DeepNetworksAreTheSameBitForBitHoweverTheyAreCut) {
  for (const NetworkRun& run :
       {NetworkRun{.model = "resnet18:input=data,width=8", .data = "synthetic:3x64x64,samples=40"},
        {.model = "resnet50:input=data,width=8"},
        {.model = "resnet44:input=data,width=8"}}) {
    const std::vector<float> whole = train(run);
    for (const int stages : {2, 4}) {
      NetworkRun cut = run;
      cut.stages = stages;
      EXPECT_EQ(train(cut), whole) << run.model << " " << stages;
    }
  }
}

/// Every synchronous method, on the first of a few shapes that it runs: two or three ranks (four
/// stages at most), the batch in 4, 8 or 2 parts, or another number up to 8.
std::vector<NetworkRun> synchronous_runs(bool with_variants) {
  std::vector<NetworkRun> runs;
  for (const Method& method : methods()) {
    if (!method.synchronous) continue;
    const int chunks = method.chunks.usual;
    const auto first_run = [&](const std::string& text) -> std::optional<NetworkRun> {
      const ScheduleSpec spec = ScheduleSpec::parse(text);
      for (const int stages : {chunks == 1 ? 3 : 2 * chunks, 2 * chunks}) {
        const Shape shape{.stages = stages, .chunks = chunks};
        const int parts = testing_support::parts_that_run(spec, shape, {4, 8, 2});
        if (parts == 0 || parts > 8) continue;
        return NetworkRun{
            .schedule = text, .stages = stages, .chunks = chunks, .micro_batches = parts};
      }
      return std::nullopt;
    };
    const auto texts = with_variants ? testing_support::variants(method, 2 * chunks, chunks)
                                     : std::vector{std::string(method.name)};
    for (const std::string& text : texts) {
      const auto run = first_run(text);
      EXPECT_TRUE(run) << text << " runs on none of the shapes";
      if (run) runs.push_back(*run);
    }
  }
  return runs;
}

TEST(NetworkRuns, SynchronousSchedulesLeaveTheWeightsOfBackPropagation) {
  for (const std::string model :
       {"lenet", "resnet20:input=data,width=8,norm=no", "lenet:dropout=0.4"}) {
    const std::vector<float> bp = train({.model = model});
    for (NetworkRun run : synchronous_runs(model == "lenet")) {
      run.model = model;
      EXPECT_LE(relative_difference(train(run), bp), 1e-5) << run.schedule << " on " << model;
    }
  }
}

TEST(NetworkRuns, ThreadsChangeNoBitOfSynchronousSchedules) {
  for (NetworkRun run : synchronous_runs(false)) {
    run.workers = 1;
    const std::vector<float> expected = train(run);
    run.workers = 2;
    EXPECT_EQ(train(run), expected) << run.schedule;
  }
}

TEST(NetworkRuns, ThreadsChangeNoBit) {
  for (const std::string schedule : {"ddg", "ddg:weights=in_place", "fr", "fdg", "dsp"}) {
    const std::string model = "resnet20:input=data,width=8";
    const NetworkRun one{.schedule = schedule, .model = model, .stages = 3, .workers = 1};
    const std::vector<float> expected = train(one);
    NetworkRun three = one;
    three.workers = 3;
    EXPECT_EQ(train(three), expected) << schedule;
  }
}

TEST(NetworkRuns, ThreadsChangeNoBitOfLocalHeads) {
  for (const std::string schedule :
       {"dgl", "dgl:mode=async,buffer=2", "dni", "dni:conditional=yes,delta=2", "dfa"}) {
    const std::string model = "resnet20:input=data,width=8";
    const NetworkRun one{.schedule = schedule, .model = model, .stages = 3, .workers = 1};
    const std::vector<float> expected = train(one);
    NetworkRun three = one;
    three.workers = 3;
    EXPECT_EQ(train(three), expected) << schedule;
  }
}

NetworkRun transformer_run(const std::string& schedule) {
  return {.schedule = schedule,
          .model = "transformer:layers=2,width=16,heads=2,sequence=8",
          .data = "text"};
}

TEST(NetworkRuns, TransformersAreTheSameBitForBitHoweverTheyAreCut) {
  NetworkRun run = transformer_run("bp");
  const std::vector<float> whole = train(run);
  for (run.stages = 2; run.stages <= 7; ++run.stages) EXPECT_EQ(train(run), whole) << run.stages;
}

TEST(NetworkRuns, SynchronousSchedulesLeaveTheTransformerOfBackPropagation) {
  const std::vector<float> bp = train(transformer_run("bp"));
  for (NetworkRun run : synchronous_runs(false)) {
    const NetworkRun transformer = transformer_run(run.schedule);
    run.model = transformer.model;
    run.data = transformer.data;
    EXPECT_LE(relative_difference(train(run), bp), 1e-5) << run.schedule;
  }
}

TEST(NetworkRuns, ThreadsChangeNoBitOfTransformers) {
  for (const std::string schedule : {"1f1b", "gpipe:recompute=always", "zb-h1", "ddg", "fr", "fdg",
                                     "dsp", "dgl", "dni", "dni:conditional=yes", "dfa"}) {
    NetworkRun run = transformer_run(schedule);
    run.stages = 3;
    run.micro_batches = 4;
    run.workers = 1;
    const std::vector<float> expected = train(run);
    for (const float w : expected) ASSERT_TRUE(std::isfinite(w)) << schedule;
    run.workers = 2;
    EXPECT_EQ(train(run), expected) << schedule;
  }
}

TEST(NetworkRuns, LocalHeadsOfOneStageAreBackPropagationBitForBit) {
  const std::vector<float> bp = train({});
  for (const std::string schedule : {"dgl", "dgl:mode=async,buffer=2", "dni", "dfa"}) {
    EXPECT_EQ(train({.schedule = schedule}), bp) << schedule;
  }
}

TEST(NetworkRuns, LocalHeadsTrainEveryStageAndOtherwiseThanBackPropagation) {
  const std::vector<float> bp = train({.stages = 3});
  const std::vector<float> untrained = train({.schedule = "dni:synth_lr=0", .stages = 3});
  for (const std::string schedule :
       {"dgl", "dgl:mode=async,buffer=2", "dni", "dni:conditional=yes", "dfa"}) {
    const std::vector<float> trained = train({.schedule = schedule, .stages = 3});
    EXPECT_GT(relative_difference(trained, bp), 1e-4) << schedule;
    EXPECT_NE(trained.front(), untrained.front()) << schedule;  // a weight of the first stage
  }
}

TEST(NetworkRuns, DirectFeedbackOnReplicasIsThatOfTheWholeBatch) {
  const std::string model = "resnet20:input=data,width=8,norm=no";
  EXPECT_LE(
      relative_difference(train({.schedule = "dfa", .model = model, .stages = 3, .replicas = 2}),
                          train({.schedule = "dfa", .model = model, .stages = 3})),
      1e-5);
}

TEST(NetworkRuns, StaleSchedulesTrainOnOtherWeightsThanBackPropagation) {
  const std::vector<float> bp = train({.stages = 3});
  for (const std::string schedule : {"ddg", "fr", "fdg", "dsp"}) {
    EXPECT_GT(relative_difference(train({.schedule = schedule, .stages = 3}), bp), 1e-4)
        << schedule;
  }
}

}  // namespace
}  // namespace unlatch::exec
