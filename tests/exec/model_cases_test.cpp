// Every kind of model on every schedule: the order of backwards, labels and threads (cases O37, O38
// and O41).
#include <gtest/gtest.h>
#include <omp.h>

#include "exec/cpu_backend.h"
#include "exec/executor.h"
#include "schedules/registry.h"
#include "tests/exec/model_cases.h"
#include "tests/support/variants.h"

namespace unlatch::exec {
namespace {

// ---- O37 ---------------------------------------------------------------------------------------

/// In two micro-batches of a sample each, if the schedule runs so.
NetworkRun in_two_terms(NetworkRun run) {
  const ScheduleSpec spec = ScheduleSpec::parse(run.schedule);
  NetworkRun two = run;
  two.micro_batches = 2;
  if (!testing_support::runs(spec, shape_of(two))) return run;
  two.batch_size = spec.effective(shape_of(two)).micro_batches;
  return two;
}

TEST(O37, BackwardsInEitherOrderLeaveTheSameWeights) {
  int exact = 0;
  const int runs = for_every_run([&](const ModelCase& model, NetworkRun run) {
    if (!ScheduleSpec::parse(run.schedule).pipeline().uses_micro_batches) return false;
    run = in_two_terms(run);
    const TrainedNetwork usual = train_network(run);
    run.arranged = in_opposite_order;
    const TrainedNetwork opposite = train_network(run);
    EXPECT_EQ(opposite.losses, usual.losses);
    EXPECT_LE(relative_difference(opposite.weights, usual.weights), 1e-6);
    if (run.micro_batches == 2 && !model_of(model).input.is_sequence) {  // a token is a term
      EXPECT_EQ(opposite.weights, usual.weights);
      ++exact;
    }
    return true;
  });
  EXPECT_GT(runs, 200);
  EXPECT_GT(exact, 100);
}

TEST(O37, GPipesBackwardsInBothOrdersLeaveTheSameWeights) {
  for (const ModelCase& model : model_cases()) {
    NetworkRun run{.model = model.model,
                   .data = model.data,
                   .stages = 3,
                   .micro_batches = 2,
                   .batches = 1,
                   .batch_size = model_of(model).input.is_sequence ? 8 : 2};
    run.schedule = "gpipe:backward=descending";
    const std::vector<float> descending = train(run);
    run.schedule = "gpipe:backward=ascending";
    if (model_of(model).input.is_sequence) {
      EXPECT_LE(relative_difference(train(run), descending), 1e-6) << model.model;
    } else {
      EXPECT_EQ(train(run), descending) << model.model;
    }
  }
}

// ---- O38 ---------------------------------------------------------------------------------------

TEST(O38, LossesBelongToTheirOwnLabels) {
  const int runs = for_every_run([](const ModelCase& model, NetworkRun run) {
    run.batches = 2;
    run.rate = [](int) { return 0; };
    for (run.workers = 1; run.workers <= 3; run.workers += 2) {
      Network network(run);
      if (sees_samples_again(network.graph())) return false;
      CpuBackend backend(network.graph(), network.runner(), {.workers = run.workers});
      exec::run(network.graph(), backend);
      const Shape& shape = network.graph().shape();
      ByHand& hand = by_hand(model, shape.micro_batches);
      std::vector<double> expected = hand.batch(0).losses;
      expected.insert(expected.end(), hand.batch(1).losses.begin(), hand.batch(1).losses.end());
      EXPECT_EQ(network.losses(), expected) << run.workers << " workers";
    }
    return true;
  });
  EXPECT_GT(runs, 400);
}

// ---- O41 ---------------------------------------------------------------------------------------

/// What one call of the library may use in this thread, whatever the executor's own ones do.
class MathsThreads {
 public:
  explicit MathsThreads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~MathsThreads() { omp_set_num_threads(before_); }
  MathsThreads(const MathsThreads&) = delete;
  MathsThreads& operator=(const MathsThreads&) = delete;

 private:
  int before_;
};

TEST(O41, ThreadsChangeNoBit) {
  const int runs = for_every_run([](const ModelCase&, NetworkRun run) {
    run.batches = 3;
    run.optimizer = "momentum:momentum=0.9";
    run.workers = 1;
    const TrainedNetwork one = train_network(run);
    const MathsThreads three(3);
    run.workers = 3;
    const TrainedNetwork many = train_network(run);
    EXPECT_EQ(many.losses, one.losses);
    EXPECT_EQ(many.weights, one.weights);
    EXPECT_EQ(many.statistics, one.statistics);
    return true;
  });
  EXPECT_GT(runs, 400);
}

}  // namespace
}  // namespace unlatch::exec
