// A tied head: two stages that hold a copy of one table each train as one table does. Scalar chains
// against gradient descent written out, transformers cut anywhere against the whole one and against
// what PyTorch made of the same numbers (tests/torch/transformer_reference.py); what is refused.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "exec/cpu_backend.h"
#include "exec/executor.h"
#include "exec/scalar_chain.h"
#include "models/tied_head.h"
#include "schedules/error.h"
#include "schedules/joint_updates.h"
#include "tests/exec/chain_descent.h"
#include "tests/exec/network_run.h"
#include "tests/support/pytorch_arrays.h"

namespace unlatch::exec {
namespace {

using testing::HasSubstr;

/// Weights of a chain, the first or the last of which is on another stage, too.
class TiedStage : public ScalarChainModule {
 public:
  TiedStage(std::vector<double> weights, bool tied)
      : ScalarChainModule(std::move(weights), Activation::tanh,
                          models::OptimizerSpec::parse("sgd")),
        tied_(tied) {}
  std::size_t tied_bytes() const override { return tied_ ? sizeof(double) : 0; }

 private:
  bool tied_;
};

/// A chain on four stages whose first weight is its last, too; two weights on each of those stages.
struct TiedChain {
  explicit TiedChain(const TaskGraph& graph, std::optional<models::GradientClip> clip = {}) {
    fill_with_golden_data(problem, graph.shape().all_micro_batches());
    for (double& y : problem.y) y *= 4;
    problem.rate = 0.3;
    problem.weights = {0.9, 0.73, 0.56, 0.8, -0.7, 0.9};
    feed = std::make_unique<ScalarFeed>(problem.x, problem.y);
    std::vector<StageModule*> modules;
    for (int copy = 0; copy < graph.shape().copies; ++copy) {
      const auto& w = problem.weights;
      stages.push_back(std::make_unique<TiedStage>(std::vector{w[0], w[1]}, true));
      stages.push_back(std::make_unique<TiedStage>(std::vector{w[2]}, false));
      stages.push_back(std::make_unique<TiedStage>(std::vector{w[3]}, false));
      stages.push_back(std::make_unique<TiedStage>(std::vector{w[4], w[5]}, true));
    }
    for (const auto& stage : stages) modules.push_back(stage.get());
    runner = std::make_unique<StageRunner>(
        graph, modules, *feed, [this](int) { return problem.rate; }, Observer{},
        std::vector<LocalHead*>{}, StatisticUpdates::forward, clip);
  }

  std::vector<double> weights(const Shape& shape, int copy = 0) const {
    std::vector<double> all;
    for (const Stage k : up_to<Stage>(shape.stages_a_copy())) {
      const auto some = runner->weights(k + copy * shape.stages_a_copy()).as<double>();
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  ChainProblem problem;
  std::unique_ptr<Feed> feed;
  std::vector<std::unique_ptr<StageModule>> stages;
  std::unique_ptr<StageRunner> runner;
};

/// Its first and last weight take the sum of their gradients, which the norm counts once.
std::vector<double> descended(const ChainProblem& problem, const Shape& shape, double most) {
  std::vector<double> weights = problem.weights;
  for (int batch = 0; batch < shape.batches; ++batch) {
    std::vector<double> gradient =
        mean_gradient(weights, problem, batch * shape.micro_batches, shape.micro_batches);
    gradient.front() += gradient.back();
    double squares = 0;
    for (std::size_t j = 0; j + 1 < gradient.size(); ++j) squares += gradient[j] * gradient[j];
    const double norm = std::sqrt(squares);
    gradient.back() = gradient.front();
    for (std::size_t j = 0; j < weights.size(); ++j) {
      weights[j] -= problem.rate * gradient[j] * std::min(1.0, most / norm);
    }
  }
  return weights;
}

/// Through every synchronous schedule; returns how many there are.
int expect_descent(std::optional<models::GradientClip> clip) {
  int schedules = 0;
  for (const Method& method : methods()) {
    if (!method.synchronous) continue;
    SCOPED_TRACE(method.name);
    const ScheduleSpec spec = ScheduleSpec::parse(method.name);
    const Shape shape = shape_for(spec, method.name == "ssgd" ? 2 : 1);
    const TaskGraph graph = with_joint_updates(spec.make(shape)).build();
    TiedChain chain(graph, clip);
    CpuBackend backend(graph, *chain.runner);
    exec::run(graph, backend);
    const auto expected = descended(chain.problem, graph.shape(), clip ? clip->most : 1e9);
    for (int copy = 0; copy < graph.shape().copies; ++copy) {
      const auto found = chain.weights(graph.shape(), copy);
      for (std::size_t j = 0; j < found.size(); ++j) EXPECT_NEAR(found[j], expected[j], 1e-13) << j;
      EXPECT_EQ(found.front(), found.back()) << "the copies are one weight";
    }
    ++schedules;
  }
  return schedules;
}

TEST(TiedHead, CopiesLearnFromTheSumOfTheirGradientsInEverySynchronousSchedule) {
  EXPECT_GE(expect_descent({}), 16);
}

TEST(TiedHead, TheNormOfTheModelCountsTheSumOnce) {
  EXPECT_GE(expect_descent(models::GradientClip{.most = 0.4}), 16);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TiedHead, UpdatesThatCannotWaitForTheSumAreRefused) {
  const Schedule schedule =
      ScheduleSpec::parse("1f1b").make({.stages = 4, .micro_batches = 2, .batches = 2});
  const TaskGraph alone = schedule.build();
  EXPECT_THAT(message_of([&] { TiedChain chain(alone); }), HasSubstr("untie the head"));
  const TaskGraph joint = with_joint_updates(schedule).build();
  EXPECT_THAT(message_of([&] {
                TiedChain chain(joint, models::GradientClip{.most = 1, .of_stage = true});
              }),
              HasSubstr("clip by the norm of the model"));
}

const char* const small = "transformer:layers=2,width=8,heads=2,sequence=8,tied=yes";

void expect_one_table(Network& network, int stages) {
  const auto first = network.runner().weights(Stage{0}).as<float>();
  const auto last = network.runner().weights(Stage{stages - 1}).as<float>();
  constexpr std::size_t table = 256 * 8;
  EXPECT_EQ(std::memcmp(first.data(), last.data() + last.size() - table, table * sizeof(float)), 0);
}

std::vector<float> trained(const NetworkRun& run) {
  Network network(run);
  CpuBackend backend(network.graph(), network.runner(), {.workers = run.workers});
  exec::run(network.graph(), backend);
  if (run.stages > 1) expect_one_table(network, run.stages);
  return network.weights();
}

/// adamw's steps are as large where a gradient is next to nothing and its rounding decides the
/// sign.
TEST(TiedHead, EveryOptimizerKeepsTheCopiesOneTableHoweverTheModelIsCut) {
  for (const std::string_view optimizer : models::optimizer_names()) {
    SCOPED_TRACE(optimizer);
    NetworkRun run{.schedule = "1f1b",
                   .model = small,
                   .data = "text",
                   .micro_batches = 2,
                   .batches = 4,
                   .optimizer = std::string(optimizer) + ":decay=0.01"};
    const std::vector<float> whole = trained(run);
    run.stages = 2;
    const std::vector<float> in_two = trained(run);
    EXPECT_LE(relative_difference(in_two, whole), optimizer == "adamw" ? 1e-3 : 1e-5);
    for (const int stages : {3, 7}) {
      run.stages = stages;
      EXPECT_EQ(trained(run), in_two) << stages;
    }
  }
}

TEST(TiedHead, SchedulesAndThreadsAndReplicasAgree) {
  const NetworkRun bp{.model = small, .data = "text"};
  const std::vector<float> expected = trained(bp);
  for (NetworkRun run : std::vector<NetworkRun>{
           {.schedule = "gpipe:recompute=always", .stages = 3, .micro_batches = 4},
           {.schedule = "zb-h1", .stages = 3, .micro_batches = 4},
           {.schedule = "zb-v", .stages = 4, .chunks = 2, .micro_batches = 4},
           {.schedule = "interleaved-1f1b", .stages = 4, .chunks = 2, .micro_batches = 4},
           {.schedule = "chimera", .stages = 4, .micro_batches = 4},
           {.schedule = "dualpipe", .stages = 4, .micro_batches = 8},
           {.schedule = "ssgd:inside=1f1b", .stages = 3, .micro_batches = 2, .replicas = 2}}) {
    SCOPED_TRACE(run.schedule);
    run.model = small;
    run.data = "text";
    run.workers = 1;
    const std::vector<float> found = trained(run);
    EXPECT_LE(relative_difference(found, expected), 1e-5);
    run.workers = 3;
    EXPECT_EQ(trained(run), found);
  }
}

/// Where first and last layer share the table, nothing waits for anything.
TEST(TiedHead, OnOneStageAnyScheduleTrains) {
  const std::vector<float> expected = trained({.model = small, .data = "text"});
  for (const char* schedule : {"fdg", "dsp", "pipedream"}) {
    EXPECT_EQ(trained({.schedule = schedule, .model = small, .data = "text"}), expected);
  }
}

// ---- PyTorch -----------------------------------------------------------------------------------

constexpr int tokens = 5, vocabulary = 7, steps = 4, samples = 2;

/// Rows of tokens and of targets, one a micro-batch.
class RowsFeed : public Feed {
 public:
  explicit RowsFeed(const testing_support::Arrays& arrays) : arrays_(arrays) {}
  Tensor input(MicroBatch i) override { return row<float>("input", i); }
  Tensor target(MicroBatch i) override { return row<std::int32_t>("targets", i); }
  Share share(MicroBatch) const override { return {}; }

 private:
  template <class T>
  Tensor row(const char* name, MicroBatch i) {
    Tensor tensor = pool_.take(tokens * sizeof(T));
    std::copy_n(arrays_.at(name).begin() + std::ptrdiff_t{i.value} * tokens, tokens,
                tensor.data<T>());
    return tensor;
  }

  const testing_support::Arrays& arrays_;
  BufferPool pool_;
};

/// The numbers of tests/torch/transformer_reference.py: rate, momentum, decay, norm.
void expect_pytorchs_steps(const char* schedule, int stages) {
  const testing_support::Arrays& expected =
      testing_support::pytorch_transformers().at("tied_network");
  const models::Model model = models::make_model(
      "transformer:layers=2,width=6,heads=2,sequence=5,tied=yes", {1, 1, 1, true}, vocabulary);
  const TaskGraph graph =
      with_joint_updates(ScheduleSpec::parse(schedule).make(
                             {.stages = stages, .micro_batches = samples, .batches = steps}))
          .build();
  const auto ranges = models::uniform_partition(static_cast<int>(model.layers.size()), stages);
  const auto owned = make_dnn_stages(
      model, ranges,
      {.optimizer = models::OptimizerSpec::parse("momentum:momentum=0.9,decay=0.01")});
  std::vector<StageModule*> modules;
  for (const auto& stage : owned) modules.push_back(stage.get());
  RowsFeed feed(expected);
  std::vector<double> losses(steps);
  const Observer observer{
      .loss = [&](MicroBatch i, const Loss& l) { losses[i.value / samples] += l.loss / samples; },
      .update = {}};
  StageRunner runner(
      graph, modules, feed, [](int) { return 0.05; }, observer, {}, StatisticUpdates::forward,
      models::GradientClip{.most = 2});
  std::vector<float> start = expected.at("weights");
  if (stages > 1) start.insert(start.end(), start.begin(), start.begin() + vocabulary * 6);
  auto from = start.begin();
  for (const Stage k : up_to<Stage>(stages)) {
    const auto weights = runner.weights(k).as<float>();
    std::copy_n(from, weights.size(), weights.begin());
    from += static_cast<std::ptrdiff_t>(weights.size());
  }
  ASSERT_EQ(from, start.end());
  CpuBackend backend(graph, runner);
  exec::run(graph, backend);
  for (int step = 0; step < steps; ++step) {
    const double loss = expected.at("losses")[static_cast<std::size_t>(step)];
    EXPECT_NEAR(losses[static_cast<std::size_t>(step)], loss, 1e-4 * loss) << step;
  }
  std::vector<float> found;
  for (const Stage k : up_to<Stage>(stages)) {
    const auto weights = runner.weights(k).as<float>();
    found.insert(found.end(), weights.begin(), weights.end());
  }
  models::drop_copied_table(model, found);
  ASSERT_EQ(found.size(), expected.at("trained").size());
  EXPECT_LE(relative_difference(found, expected.at("trained")), 2e-6);
}

TEST(TiedHead, StepsWithAClippedNormArePyTorchsHoweverTheModelIsCut) {
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    for (const int stages : {1, 2, 3, 7}) {
      SCOPED_TRACE(fmt::format("{} on {} stages", schedule, stages));
      expect_pytorchs_steps(schedule, stages);
    }
  }
}

}  // namespace
}  // namespace unlatch::exec
