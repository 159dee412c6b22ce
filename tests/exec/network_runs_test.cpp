// Whole networks through the executor: the cut, the micro-batches and the threads change nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exec/cpu_backend.h"
#include "exec/data_feed.h"
#include "exec/dnn_heads.h"
#include "exec/dnn_stage.h"
#include "exec/executor.h"
#include "exec/stage_runner.h"
#include "models/dataset.h"
#include "schedules/registry.h"
#include "tests/support/small_text.h"
#include "tests/support/variants.h"

namespace unlatch::exec {
namespace {

struct NetworkRun {
  std::string schedule = "bp";
  std::string model = "lenet";
  std::string data = "digits";
  int stages = 1;
  int chunks = 1;
  int micro_batches = 1;
  int workers = 0;
  int replicas = 1;
};

constexpr int batch_size = 16;
constexpr int batches = 6;
constexpr int text_window = 8;

const models::DataSplit& loaded(const std::string& specification) {
  static std::map<std::string, models::DataSplit> all;
  const auto found = all.find(specification);
  if (found != all.end()) return found->second;
  auto data = specification == "text" ? testing_support::small_text({text_window, 1, 1, true})
                                      : models::load_data(specification);
  return all.emplace(specification, std::move(data)).first->second;
}

/// All weights in the order of the layers, after six batches.
std::vector<float> train(const NetworkRun& run) {
  const models::DataSplit& data = loaded(run.data);
  const models::Model model = models::make_model(run.model, data.train.shape, data.train.classes);
  const ScheduleSpec spec = ScheduleSpec::parse(run.schedule);
  const TaskGraph graph = spec.make({.stages = run.stages,
                                     .chunks = run.chunks,
                                     .micro_batches = run.micro_batches,
                                     .batches = batches,
                                     .replicas = run.replicas})
                              .build();
  const int parts = graph.shape().micro_batches;
  const DnnRun stage_run{.micro_batch_size = batch_size / parts,
                         .optimizer = models::OptimizerSpec::parse("momentum:momentum=0.9"),
                         .seed = 7};
  std::vector<std::vector<std::unique_ptr<DnnStageModule>>> owned;
  std::vector<std::unique_ptr<LocalHead>> heads;
  std::vector<StageModule*> modules;
  std::vector<LocalHead*> lent_heads;
  for (int copy = 0; copy < graph.shape().copies; ++copy) {
    owned.push_back(make_dnn_stages(
        model, models::uniform_partition(static_cast<int>(model.layers.size()), run.stages),
        stage_run));
    for (const auto& stage : owned.back()) modules.push_back(stage.get());
    for (auto& head : make_dnn_heads(graph.learning().local_gradients, owned.back(), stage_run)) {
      lent_heads.push_back(head.get());
      heads.push_back(std::move(head));
    }
  }
  DataFeed feed(data.train, model.input, batch_size, parts, 7);
  StageRunner runner(
      graph, modules, feed, [](int) { return 0.05; }, {}, lent_heads);
  CpuBackend backend(graph, runner, {.workers = run.workers});
  exec::run(graph, backend);
  std::vector<float> weights;
  for (const Stage k : up_to<Stage>(run.stages)) {
    for (const float w : runner.weights(k).as<float>()) weights.push_back(w);
  }
  return weights;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(difference / size);
}

TEST(NetworkRuns, BackPropagationIsTheSameBitForBitHoweverTheModelIsCut) {
  for (const std::string model : {"lenet", "resnet20:input=data,width=8"}) {
    const std::vector<float> whole = train({.model = model});
    for (const int stages : {2, 4}) {
      EXPECT_EQ(train({.model = model, .stages = stages}), whole) << model << " " << stages;
    }
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
  for (const std::string model : {"lenet", "resnet20:input=data,width=8,norm=no"}) {
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
