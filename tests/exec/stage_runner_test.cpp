// Scalar stages small enough to compute by hand: which gradient meets which weights and labels.
#include "exec/stage_runner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "exec/executor.h"
#include "exec/numerics.h"
#include "schedules/error.h"
#include "schedules/registry.h"

namespace unlatch::exec {
namespace {

ChainResult run_identity(const std::string& schedule, int stages, int micro_batches,
                         std::vector<double> weights, std::vector<double> x, std::vector<double> y,
                         double rate) {
  const int batches = static_cast<int>(x.size()) / micro_batches;
  const Shape shape{.stages = stages, .micro_batches = micro_batches, .batches = batches};
  const ChainProblem problem{.weights = std::move(weights),
                             .activation = Activation::identity,
                             .x = std::move(x),
                             .y = std::move(y),
                             .rate = rate};
  return run_chain(ScheduleSpec::parse(schedule).make(shape).build(), problem);
}

TEST(StageRunner, BackwardMeetsItsOwnForwardInEitherOrder) {  // case O37
  for (const std::string order : {"descending", "ascending"}) {
    const ChainResult r =
        run_identity("gpipe:backward=" + order, 2, 2, {2, 3}, {1, 2}, {5, 5}, 1.0);
    EXPECT_EQ(r.losses, (std::vector<double>{0.5, 24.5}));
    EXPECT_DOUBLE_EQ(2 - r.final[0], 22.5);
    EXPECT_DOUBLE_EQ(3 - r.final[1], 15.0);
  }
}

TEST(StageRunner, LabelsBelongToTheirMicroBatch) {  // case O38
  for (const std::string schedule : {"gpipe", "1f1b", "gpipe:recompute=always"}) {
    for (const int stages : {1, 2}) {
      const ChainResult r = run_identity(schedule, stages, 3, {2, 3}, {1, 2, 3}, {6, 0, 18}, 0.01);
      EXPECT_EQ(r.losses, (std::vector<double>{0, 72, 0})) << schedule << " P=" << stages;
    }
  }
}

TEST(StageRunner, ScalesTheGradientOnce) {  // case O43
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    for (const int stages : {1, 2}) {
      const ChainResult r = run_identity(schedule, stages, 8, {2, 3}, {1, 2, 3, 4, 1, 2, 3, 4},
                                         {6, 12, 18, 24, 0, 0, 0, 0}, 1.0);
      EXPECT_EQ(r.losses, (std::vector<double>{0, 0, 0, 0, 18, 72, 162, 288}));
      EXPECT_DOUBLE_EQ(2 - r.final[0], 67.5);
      EXPECT_DOUBLE_EQ(3 - r.final[1], 45.0);
    }
  }
}

/// Case O45: FDG tick by tick on two modules. A tick is a lock-step iteration of order bf.
struct FdgTicks {
  std::string beta;
  std::vector<double> losses, w0, w1;  ///< losses and w1 by batch, w0 by update
};

TEST(StageRunner, FollowsFdgTickByTick) {
  const FdgTicks tables[] = {{"1",
                              {0, 0.5, 1.90125, 0.335995, 1.959383},
                              {0.5, 0.1, -0.2705, -0.12274},
                              {2.0, 1.9, 1.8025, 1.810698, 1.703602}},
                             {"0.5",
                              {0, 0.5, 1.90125, 0.105455, 0.17004},
                              {0.5, 0.3, 0.11475, 0.15614},
                              {2.0, 1.9, 1.8025, 1.816277, 1.829661}}};
  for (const FdgTicks& table : tables) {
    const ChainResult r = run_identity("fdg:order=bf,shrink=" + table.beta, 2, 1, {0.5, 2},
                                       {1, 2, -1, 1, 2, 1}, {1, 1, 1, 1, 1, 1}, 0.1);
    for (std::size_t n = 0; n < table.losses.size(); ++n) {
      EXPECT_NEAR(r.losses[n], table.losses[n], 1e-6) << "batch " << n;
      EXPECT_NEAR(r.weights_by_update[1][n + 1], table.w1[n], 1e-6) << "batch " << n;
    }
    for (std::size_t n = 0; n < table.w0.size(); ++n) {
      EXPECT_NEAR(r.weights_by_update[0][n + 1], table.w0[n], 1e-6) << "update " << n;
    }
  }
}

TEST(StageRunner, FollowsFdgWithForwardFirst) {  // case O45, second table
  const ChainResult r =
      run_identity("fdg:order=fb", 2, 1, {0.5, 2}, {1, 2, -1, 1, 2, 1}, {1, 1, 1, 1, 1, 1}, 0.1);
  EXPECT_NEAR(r.losses[3], 0.004876, 1e-6);
  EXPECT_NEAR(r.losses[4], 0.203849, 1e-6);
  EXPECT_NEAR(r.weights_by_update[0][3], -0.2705, 1e-6);
  EXPECT_NEAR(r.weights_by_update[0][4], -0.2527, 1e-6);
  EXPECT_NEAR(r.weights_by_update[1][4], 1.807438, 1e-6);
  EXPECT_NEAR(r.weights_by_update[1][5], 1.820208, 1e-6);
  const ChainResult half = run_identity("fdg:order=fb,shrink=0.5", 2, 1, {0.5, 2},
                                        {1, 2, -1, 1, 2, 1}, {1, 1, 1, 1, 1, 1}, 0.1);
  EXPECT_NEAR(half.losses[4], 0.003567, 1e-6);
  EXPECT_NEAR(half.weights_by_update[0][4], 0.12365, 1e-6);
  EXPECT_NEAR(half.weights_by_update[1][5], 1.80237, 1e-6);
}

TEST(StageRunner, OneStageIsBackPropagationForEveryMethod) {
  ChainProblem problem{.weights = {0.9, -0.8, 1.1}};
  fill_with_golden_data(problem, 12);
  const Shape shape{.stages = 1, .batches = 12};
  const auto run_it = [&](const std::string& schedule) {
    return run_chain(ScheduleSpec::parse(schedule).make(shape).build(), problem).weights_by_update;
  };
  for (const std::string schedule : {"gpipe", "1f1b", "ddg", "ddg:form=mailbox", "fr", "fdg",
                                     "fdg:form=queue,order=bf", "dsp", "dsp:form=lockstep"}) {
    EXPECT_EQ(run_it(schedule), run_it("bp")) << schedule;
  }
}

TEST(StageRunner, ZeroStalenessIsBackPropagation) {
  ChainProblem problem{.weights = {0.9, -0.8, 1.1}};
  fill_with_golden_data(problem, 12);
  const Shape shape{.stages = 3, .batches = 12};
  const auto run_it = [&](const std::string& schedule) {
    return run_chain(ScheduleSpec::parse(schedule).make(shape).build(), problem).weights_by_update;
  };
  EXPECT_EQ(run_it("dsp:staleness=0/0/0"), run_it("bp"));
}

/// All forwards, then backwards in the order of the micro-batches: whole (-1), or as an I with the
/// W of the micro-batch that many before it.
TaskGraph forwards_then_backwards(const Shape& shape, int delay) {
  Schedule schedule("test", shape);
  const int parts = shape.micro_batches;
  for (int b = 0; b < shape.batches; ++b) {
    const auto part = [&](int i) { return MicroBatch{b * parts + i}; };
    for (const Stage k : up_to<Stage>(shape.stages)) {
      for (int i = 0; i < parts; ++i) schedule.of(k).forward(k, part(i));
    }
    for (int k = shape.stages; k-- > 0;) {
      Program& program = schedule.of(Stage{k});
      for (int i = 0; i < parts; ++i) {
        if (delay < 0) {
          program.backward(Stage{k}, part(i));
          continue;
        }
        program.backward_input(Stage{k}, part(i));
        if (i >= delay) program.backward_weight(Stage{k}, part(i - delay));
      }
    }
    for (const Stage k : up_to<Stage>(shape.stages)) {
      for (int i = std::max(0, parts - std::max(delay, 0)); i < parts; ++i) {
        schedule.of(k).backward_weight(k, part(i));
      }
      schedule.of(k).update(k, part(parts - 1));
    }
  }
  return schedule.build();
}

TEST(StageRunner, SplitBackwardsTrainBitForBitAsWholeOnes) {
  ChainProblem problem{.weights = {0.9, -0.8, 1.1, 0.7}};
  problem.optimizer = models::OptimizerSpec::parse("momentum:momentum=0.9");
  fill_with_golden_data(problem, 4 * 3);
  for (const int chunks : {1, 2}) {
    const Shape shape{.stages = 4, .chunks = chunks, .micro_batches = 4, .batches = 3};
    const ChainResult whole = run_chain(forwards_then_backwards(shape, -1), problem);
    EXPECT_NE(whole.final, problem.weights);
    for (const int delay : {0, 1, 3, 4}) {
      for (const int workers : {1, 2}) {
        const ChainResult split =
            run_chain(forwards_then_backwards(shape, delay), problem, {.workers = workers});
        EXPECT_EQ(split.weights_by_update, whole.weights_by_update) << "W " << delay << " later";
        EXPECT_EQ(split.losses, whole.losses);
      }
    }
  }
}

// The update between F and I leaves both halves at the weights of F.
TEST(StageRunner, SplitBackwardsReadStashedWeights) {
  const auto trained = [](bool split) {
    ChainProblem problem{.weights = {0.9, -0.8}};
    fill_with_golden_data(problem, 3);
    Schedule schedule("test", {.stages = 2, .batches = 3});
    for (const Stage k : up_to<Stage>(2)) {
      Program& program = schedule.of(k);
      for (int i = 0; i < 3; ++i) program.forward(k, {i});
      for (int i = 0; i < 3; ++i) {
        if (split) {
          program.backward_input(k, {i}, Weights::as_forward).backward_weight(k, {i});
        } else {
          program.backward(k, {i}, Weights::as_forward);
        }
        program.update(k, {i});
      }
    }
    return run_chain(schedule.build(), problem).weights_by_update;
  };
  EXPECT_EQ(trained(true), trained(false));
}

TEST(StageRunner, ExactDelayedGradientIsTheTrueOneAtTheSnapshot) {  // decoupled.md section 6
  // DDG exact: the gradient of batch n is that of BP at all weights as they stood in iteration n.
  const int batches = 12, stages = 3;
  ChainProblem problem{.weights = {0.9, -0.8, 1.1}};
  fill_with_golden_data(problem, batches);
  const Shape shape{.stages = stages, .batches = batches};
  const ChainResult ddg = run_chain(ScheduleSpec::parse("ddg").make(shape).build(), problem);
  for (int n = 0; n < batches; ++n) {
    ChainProblem one{.weights = {}, .x = {problem.x[n]}, .y = {problem.y[n]}};
    for (int k = 0; k < stages; ++k) {
      one.weights.push_back(ddg.weights_by_update[k][std::max(0, n - (stages - 1 - k))]);
    }
    const ChainResult bp =
        run_chain(ScheduleSpec::parse("bp").make({.stages = stages, .batches = 1}).build(), one);
    for (int k = 0; k < stages; ++k) {
      const double stale = ddg.weights_by_update[k][n] - ddg.weights_by_update[k][n + 1];
      EXPECT_NEAR(stale, one.weights[k] - bp.final[k], 1e-15) << "batch " << n << " stage " << k;
    }
  }
}

TEST(StageRunner, DisplacementTendsToThatOfBackPropagationWithTheRate) {  // section 15, item 5
  const auto displacement = [](const std::string& schedule, double rate) {
    ChainProblem problem{.weights = {0.9, -0.8, 1.1}, .rate = rate};
    fill_with_golden_data(problem, 12);
    const auto final =
        run_chain(ScheduleSpec::parse(schedule).make({.stages = 3, .batches = 12}).build(), problem)
            .final;
    return std::vector<double>{final[0] - 0.9, final[1] + 0.8, final[2] - 1.1};
  };
  for (const std::string schedule : {"fdg", "dsp"}) {
    for (const auto& [rate, bound] : {std::pair(1e-3, 8e-4), std::pair(1e-5, 8e-6)}) {
      const auto stale = displacement(schedule, rate), exact = displacement("bp", rate);
      double difference = 0, size = 0;
      for (int k = 0; k < 3; ++k) {
        difference += (stale[k] - exact[k]) * (stale[k] - exact[k]);
        size += exact[k] * exact[k];
      }
      EXPECT_LE(std::sqrt(difference / size), bound) << schedule << " at rate " << rate;
    }
  }
}

TEST(StageRunner, ShrinkingIsALearningRatePerStage) {  // section 14, pitfall 16
  const double beta = 0.5;
  ChainProblem problem{.weights = {0.9, -0.8, 1.1}};
  problem.optimizer = models::OptimizerSpec::parse("momentum:momentum=0.9");
  fill_with_golden_data(problem, 2);
  const Shape shape{.stages = 3, .batches = 2};
  const auto shrunk = run_chain(ScheduleSpec::parse("fdg:shrink=0.5").make(shape).build(), problem);
  const auto plain = run_chain(ScheduleSpec::parse("fdg").make(shape).build(), problem);
  // Until stages see each other's first updates, the steps differ by beta^(K-1-k).
  EXPECT_NEAR(shrunk.weights_by_update[0][1] - 0.9,
              beta * beta * (plain.weights_by_update[0][1] - 0.9), 1e-15);
  EXPECT_NEAR(shrunk.weights_by_update[1][1] + 0.8, beta * (plain.weights_by_update[1][1] + 0.8),
              1e-15);
}

/// Sleeps before some tasks, differently every time.
class Delayed : public TaskRunner {
 public:
  Delayed(TaskRunner& inner, unsigned seed) : inner_(inner), seed_(seed) {}
  void run(const Task& task, Workspace& workspace) override {
    std::minstd_rand random(seed_ * 7919 + task.micro_batch.value * 31 + task.stage.value * 7 +
                            static_cast<int>(task.op));
    random.discard(3);
    const auto draw = random() % 8;
    if (draw < 3) std::this_thread::sleep_for(std::chrono::microseconds(draw * 40));
    inner_.run(task, workspace);
  }

 private:
  TaskRunner& inner_;
  unsigned seed_;
};

TEST(StageRunner, SameWeightsBitForBitHoweverTheThreadsRun) {
  for (const std::string schedule :
       {"bp", "gpipe:recompute=except_last", "1f1b", "ddg:form=mailbox", "fr", "fdg:form=queue",
        "dsp", "dsp:form=lockstep"}) {
    for (const int stages : {1, 2, 3, 4}) {
      const Shape shape{.stages = stages, .micro_batches = 2, .batches = 6};
      const TaskGraph graph = ScheduleSpec::parse(schedule).make(shape).build();
      ChainProblem problem{.weights = {0.9, -0.8, 1.1, 0.7}};
      fill_with_golden_data(problem, graph.shape().all_micro_batches());
      const ChainResult expected = run_chain(graph, problem, {.workers = 1});
      const std::vector<int> sizes = stages == 1   ? std::vector<int>{4}
                                     : stages == 2 ? std::vector<int>{2, 2}
                                     : stages == 3 ? std::vector<int>{2, 1, 1}
                                                   : std::vector<int>{1, 1, 1, 1};
      for (unsigned seed = 0; seed < 200; seed += 8) {  // 25 x 8 schedules x 4 shapes
        const auto owned = scalar_chain_stages(problem.weights, sizes, Activation::tanh, {});
        std::vector<StageModule*> modules;
        for (const auto& module : owned) modules.push_back(module.get());
        ScalarFeed feed(problem.x, problem.y);
        StageRunner stages_runner(graph, modules, feed, [](int) { return 0.1; });
        Delayed delayed(stages_runner, seed);
        CpuBackend backend(graph, delayed, {.workers = 1 + static_cast<int>(seed / 8 % 5)});
        run(graph, backend);
        std::vector<double> final;
        for (const Stage k : up_to<Stage>(stages)) {
          for (const double w : stages_runner.weights(k).as<double>()) final.push_back(w);
        }
        ASSERT_EQ(final, expected.final) << schedule << " on " << stages << " stages";
      }
    }
  }
}

TEST(StageRunner, RefusesAWrongNumberOfModules) {
  const TaskGraph graph = ScheduleSpec::parse("bp").make({.stages = 2}).build();
  ScalarFeed feed({1}, {1});
  EXPECT_THROW(StageRunner(graph, {}, feed, [](int) { return 0.1; }), Error);
}

}  // namespace
}  // namespace unlatch::exec
