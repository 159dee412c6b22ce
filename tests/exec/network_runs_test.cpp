// Whole networks through the executor: the cut, the micro-batches and the threads change nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "exec/cpu_backend.h"
#include "exec/data_feed.h"
#include "exec/dnn_stage.h"
#include "exec/executor.h"
#include "exec/stage_runner.h"
#include "models/dataset.h"
#include "schedules/registry.h"

namespace unlatch::exec {
namespace {

struct NetworkRun {
  std::string schedule = "bp";
  std::string model = "lenet";
  int stages = 1;
  int micro_batches = 1;
  int workers = 0;
};

constexpr int batch_size = 16;
constexpr int batches = 6;

/// All weights in the order of the layers, after six batches of digits.
std::vector<float> train(const NetworkRun& run) {
  static const models::DataSplit data = models::load_data("digits");
  const models::Model model = models::make_model(run.model, data.train.shape, data.train.classes);
  const ScheduleSpec spec = ScheduleSpec::parse(run.schedule);
  const TaskGraph graph =
      spec.make({.stages = run.stages, .micro_batches = run.micro_batches, .batches = batches})
          .build();
  const int parts = graph.shape().micro_batches;
  const auto owned = make_dnn_stages(
      model, models::uniform_partition(static_cast<int>(model.layers.size()), run.stages),
      {.micro_batch_size = batch_size / parts,
       .optimizer = models::OptimizerSpec::parse("momentum:momentum=0.9"),
       .seed = 7});
  std::vector<StageModule*> modules;
  for (const auto& stage : owned) modules.push_back(stage.get());
  DataFeed feed(data.train, model.input, batch_size, parts, 7);
  StageRunner runner(graph, modules, feed, [](int) { return 0.05; });
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

TEST(NetworkRuns, SynchronousSchedulesLeaveTheWeightsOfBackPropagation) {
  for (const std::string model : {"lenet", "resnet20:input=data,width=8,norm=no"}) {
    const std::vector<float> bp = train({.model = model});
    for (const std::string schedule :
         {"gpipe", "gpipe:recompute=always", "gpipe:recompute=except_last",
          "gpipe:backward=ascending", "1f1b"}) {
      const std::vector<float> weights =
          train({.schedule = schedule, .model = model, .stages = 3, .micro_batches = 4});
      EXPECT_LE(relative_difference(weights, bp), 1e-5) << schedule;
    }
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

TEST(NetworkRuns, StaleSchedulesTrainOnOtherWeightsThanBackPropagation) {
  const std::vector<float> bp = train({.stages = 3});
  for (const std::string schedule : {"ddg", "fr", "fdg", "dsp"}) {
    EXPECT_GT(relative_difference(train({.schedule = schedule, .stages = 3}), bp), 1e-4)
        << schedule;
  }
}

}  // namespace
}  // namespace unlatch::exec
