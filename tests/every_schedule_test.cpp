// What holds for every schedule, variant and small shape: the catalogue's promises, the sanity of
// every graph, and that the executor on a fake clock equals the simulator.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "exec/executor.h"
#include "exec/fake_backend.h"
#include "schedules/graph_algorithms.h"
#include "schedules/properties.h"
#include "schedules/races.h"
#include "sim/simulator.h"
#include "sim/stage_costs.h"
#include "tests/support/variants.h"
#include "traces/metrics.h"

namespace unlatch {
namespace {

using testing_support::variants;

/// AddressSanitizer is ten times slower and looks for other faults than those of long runs.
#ifdef __SANITIZE_ADDRESS__
constexpr int most_batches = 4;
#else
constexpr int most_batches = 12;
#endif

class EverySchedule : public testing::TestWithParam<std::string_view> {
 protected:
  const Method& method() const { return find_method(GetParam()); }

  /// Calls visit(spec, shape) for P 1..5, M 1..6 (where it matters; 8 and 10 too where two copies
  /// share them), batches 1..12, both drains, every number of stages a rank up to 3 that the method
  /// runs, and two replicas for a few batches; shapes that it refuses are left out.
  template <class Visit>
  void for_every_shape(const Visit& visit) const {
    int visited = 0;
    const Chunks& chunks = method().chunks;
    for (int v = chunks.least; v <= std::min(chunks.most, std::max(chunks.least, 3)); ++v) {
      for (int ranks = 1; ranks <= 5; ++ranks) {
        for (const int replicas : {1, 2}) {
          const Shape size{.stages = ranks * v, .chunks = v, .replicas = replicas};
          for (const std::string& text : variants(method(), size.stages, v)) {
            visited += for_every_length(ScheduleSpec::parse(text), size, visit);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
    EXPECT_GT(visited, 20) << "the method refuses too much to be tested";
  }

 private:
  std::vector<int> micro_batches() const {
    if (!method().uses_micro_batches) return {1};
    if (method().copies == 1) return {1, 2, 3, 4, 5, 6};
    return {1, 2, 3, 4, 5, 6, 8, 10};
  }

  template <class Visit>
  int for_every_length(const ScheduleSpec& spec, Shape shape, const Visit& visit) const {
    int visited = 0;
    for (const int m : micro_batches()) {
      shape.micro_batches = m;
      for (shape.batches = 1; shape.batches <= (shape.replicas > 1 ? 3 : most_batches);
           ++shape.batches) {
        for (const bool drain : {true, false}) {
          shape.drain = drain;
          if (!testing_support::runs(spec, shape)) continue;
          visit(spec, shape);
          ++visited;
          if (HasFatalFailure()) return visited;
        }
      }
    }
    return visited;
  }
};

std::string describe(const ScheduleSpec& spec, const Shape& s) {
  return fmt::format("{} P={} V={} R={} M={} batches={} drain={}", spec.text(), s.ranks(), s.chunks,
                     s.replicas, s.micro_batches, s.batches, s.drain);
}

sim::StageTimes uneven_times(int stages, bool transfers, double overlap) {
  using std::chrono::milliseconds;
  sim::StageTimes times;
  for (int k = 0; k < stages; ++k) {
    times.forward.push_back(milliseconds(3 + k * 2 % 5));
    times.backward.push_back(milliseconds(5 + k * 3 % 4));
    times.backward_input.push_back(milliseconds(2));
    times.backward_weight.push_back(times.backward.back() - milliseconds(2));
    times.recompute.push_back(milliseconds(2 + k % 4));
    times.update.push_back(milliseconds(k % 2));
    times.overlap.push_back(overlap);
    times.all_reduce.push_back(milliseconds(transfers ? 1 + k % 2 : 0));
    times.push.push_back(milliseconds(transfers ? 2 : 0));
    times.pull.push_back(milliseconds(transfers ? 1 + k % 2 : 0));
    if (k + 1 == stages) break;
    times.activation_transfer.push_back(milliseconds(transfers ? 1 + k % 3 : 0));
    times.gradient_transfer.push_back(milliseconds(transfers ? 4 - k % 3 : 0));
  }
  return times;
}

/// Without drain a stage leaves out its last backwards only.
void expect_each_work_once(const TaskGraph& graph) {
  std::map<std::pair<Op, std::pair<Stage, MicroBatch>>, int> seen;
  for (const Task& task : graph.tasks()) {
    if (task.op != Op::barrier) ++seen[{task.op, {task.stage, task.micro_batch}}];
  }
  for (const auto& [work, count] : seen) EXPECT_EQ(count, 1);
  for (const Stage k : up_to<Stage>(graph.shape().stages)) {
    int backwards = 0;
    int mine = 0;
    for (const MicroBatch i : up_to<MicroBatch>(graph.shape().all_micro_batches())) {
      if (graph.shape().copy_of(i) != graph.shape().copy_of(k)) continue;
      ++mine;
      EXPECT_EQ(seen.count({Op::forward, {k, i}}), 1U);
      const bool whole = seen.count({Op::backward, {k, i}}) == 1;
      EXPECT_EQ(seen.count({Op::backward_input, {k, i}}),
                seen.count({Op::backward_weight, {k, i}}));
      if (whole || seen.count({Op::backward_input, {k, i}}) == 1) ++backwards;
    }
    if (graph.shape().drain) {
      EXPECT_EQ(backwards, mine);
    }
  }
}

TEST_P(EverySchedule, DoesEachWorkOnceWithoutRaces) {
  for_every_shape([](const ScheduleSpec& spec, const Shape& shape) {
    SCOPED_TRACE(describe(spec, shape));
    const TaskGraph graph = spec.make(shape).build();
    expect_each_work_once(graph);
    EXPECT_TRUE(races(graph).empty());
    for (const TaskId id : graph.ids()) {
      for (const Edge edge : graph.edges_into(id)) ASSERT_LT(edge.from(), id);
    }
  });
}

TEST_P(EverySchedule, KeepsItsPromises) {
  for_every_shape([](const ScheduleSpec& spec, const Shape& shape) {
    if (!shape.drain) return;  // its last forwards never meet their update
    SCOPED_TRACE(describe(spec, shape));
    const TaskGraph graph = spec.make(shape).build();
    const Properties measured = properties(graph);
    const Promise promise = spec.promise(shape);
    EXPECT_EQ(measured.forward_staleness, promise.forward_staleness);
    EXPECT_EQ(measured.weight_staleness, promise.weight_staleness);
    for (std::size_t k = 0; k < promise.weight_versions.size(); ++k) {
      // A run must be longer than fill and drain together to see all versions alive at once; the
      // fill begins with the last update that has no delay.
      const std::vector<int> stale = staleness_by_update(graph, Stage{static_cast<int>(k)});
      const auto fresh = std::ranges::find_if(stale, [](int s) { return s > 0; }) - stale.begin();
      const bool steady = std::ssize(stale) - fresh > 2 * promise.forward_staleness[k];
      EXPECT_LE(measured.weight_versions[k], promise.weight_versions[k]) << "stage " << k;
      EXPECT_TRUE(!steady || measured.weight_versions[k] == promise.weight_versions[k]) << k;
    }
    EXPECT_EQ(measured.activations, promise.activations);
    EXPECT_EQ(measured.inputs, promise.inputs);
    const auto& stale = measured.forward_staleness;
    if (spec.method().synchronous) {
      EXPECT_EQ(std::count(stale.begin(), stale.end(), 0), std::ssize(stale));
    }
  });
}

TEST_P(EverySchedule, IsIdleForThePromisedTimeAtEqualTimes) {
  for_every_shape([](const ScheduleSpec& spec, const Shape& shape) {
    const std::optional<int> idle = spec.promise(shape).idle;
    if (!idle || shape.batches != 1) return;
    SCOPED_TRACE(describe(spec, shape));
    const TaskGraph graph = spec.make(shape).build();
    const Shape& run = graph.shape();
    const sim::StageCosts costs(
        sim::stage_times({.forward = "1ns"}, run.stages_a_copy()).for_copies(run.copies));
    const Metrics m = metrics(graph, sim::run(graph, costs));
    EXPECT_EQ((m.longest_span - m.ranks[m.bottleneck.value].busy).count(), *idle);
  });
}

TEST_P(EverySchedule, RunsOnAFakeClockExactlyAsSimulated) {
  for_every_shape([](const ScheduleSpec& spec, const Shape& shape) {
    SCOPED_TRACE(describe(spec, shape));
    for (const auto& [transfers, overlap] : {std::pair(false, 1.0), {true, 0.3}, {true, 0.0}}) {
      const sim::StageCosts costs(
          uneven_times(shape.stages, transfers, overlap).for_copies(spec.effective(shape).copies));
      const TaskGraph graph = with_transfers(spec.make(shape).build(), costs.links());
      const Timeline simulated = sim::run(graph, costs);
      exec::FakeBackend backend(
          graph, [&](const Task& task) { return costs.duration(task); }, overlap);
      ASSERT_EQ(exec::run(graph, backend), simulated);
      ASSERT_EQ(sim::run(graph, costs), simulated);
    }
  });
}

TEST_P(EverySchedule, TakesAtLeastItsCriticalPathAndItsBusiestRank) {
  for_every_shape([](const ScheduleSpec& spec, const Shape& shape) {
    if (shape.batches % 4 != 1) return;  // 1, 5, 9: the bounds need no complete list
    SCOPED_TRACE(describe(spec, shape));
    const sim::StageCosts slow(
        uneven_times(shape.stages, true, 0.5).for_copies(spec.effective(shape).copies));
    const sim::StageCosts quick(
        uneven_times(shape.stages, false, 0.5).for_copies(spec.effective(shape).copies));
    const TaskGraph plain = spec.make(shape).build();
    const TaskGraph graph = with_transfers(plain, slow.links());
    const Timeline timeline = sim::run(graph, slow);
    const Metrics m = metrics(graph, timeline);
    long long path = 0;
    const auto length = [&](TaskId id) -> long long { return timeline[id].length().count(); };
    // The pair F, R starts together: leave R out, it hangs on no path of its own but F's.
    for (const TaskId id : critical_path(graph, [&](TaskId id) {
           return graph.task(id).op == Op::recompute ? 0LL : length(id);
         })) {
      if (graph.task(id).op != Op::recompute) path += length(id);
    }
    EXPECT_GE(m.makespan.count(), path);
    for (const RankMetrics& rank : m.ranks) {
      EXPECT_GE(m.makespan, rank.busy);
      EXPECT_EQ(rank.busy + rank.idle, m.makespan);
    }
    EXPECT_LE(makespan(sim::run(plain, quick)), m.makespan);  // a faster link never slows it
  });
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EverySchedule, testing::ValuesIn([] {
                           std::vector<std::string_view> names;
                           for (const Method& method : methods()) names.push_back(method.name);
                           return names;
                         }()),
                         [](const auto& method) {
                           std::string name(method.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return "Of_" + name;
                         });

}  // namespace
}  // namespace unlatch
