// Closed forms of the synchronous pipeline schedules over ranges of P ranks, V stages a rank, M
// micro-batches and unequal times, each within the range for which it is stated.
#include <gmock/gmock.h>

#include "tests/sim/modern_support.h"

namespace unlatch::sim {
namespace {

/// Times with W <= F and 2W <= F+I.
const std::vector<Ticks> unequal{{1, 1, 1}, {10, 12, 8}, {10, 10, 5},
                                 {7, 9, 7}, {10, 6, 8},  {3, 9, 1}};

std::vector<int> micro_batches(int least) { return {least, least + 1, 2 * least, 3 * least + 2}; }

TEST(ClosedForms, IdleOfOneStageARank) {
  for (const Ticks& t : unequal) {
    for (const int ranks : {1, 2, 3, 4, 5, 8, 16}) {
      const int hops = ranks - 1;
      for (const int m : micro_batches(ranks)) {
        SCOPED_TRACE(fmt::format("P={} M={} F={} I={} W={}", ranks, m, t.forward, t.input_grad,
                                 t.weight_grad));
        EXPECT_EQ(Batch("gpipe", ranks, m, 1, t).idle(), hops * (t.forward + t.backward()));
        EXPECT_EQ(Batch("1f1b", ranks, m, 1, t).idle(), hops * (t.forward + t.backward()));
        const std::int64_t first = t.forward + t.input_grad - t.weight_grad;
        EXPECT_EQ(Batch("zb-h1", ranks, m, 1, t).idle(), hops * first);
        if (m < 2 * ranks - 1) continue;
        const Batch h2("zb-h2", ranks, m, 1, t);
        EXPECT_EQ(h2.idle(), hops * (first - t.weight_grad));
        EXPECT_EQ(h2.makespan(), m * t.all() + hops * std::max(t.forward, first - t.weight_grad));
      }
    }
  }
}

TEST(ClosedForms, IdleOfTwoStepsOfAMessageInZbH2) {
  for (const int ranks : {2, 4, 8}) {
    const Ticks t{10, 12, 8, 2};
    EXPECT_EQ(Batch("zb-h2", ranks, 3 * ranks, 1, t).idle(),
              (ranks - 1) * (t.forward + t.input_grad + 2 * t.message - 2 * t.weight_grad));
  }
}

TEST(ClosedForms, IdleOfSeveralStagesARank) {
  for (const Ticks& t : unequal) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      const int hops = ranks - 1;
      for (const int chunks : {2, 3, 4}) {
        for (const int rounds : {1, 2, 5}) {
          const int m = rounds * ranks;
          SCOPED_TRACE(fmt::format("P={} V={} M={} F={} I={} W={}", ranks, chunks, m, t.forward,
                                   t.input_grad, t.weight_grad));
          EXPECT_EQ(Batch("interleaved-1f1b", ranks, m, chunks, t).idle(), hops * t.all());
          EXPECT_EQ(Batch("looped-bfs", ranks, m, chunks, t).idle(), hops * t.all());
          EXPECT_EQ(Batch("interleaved-zb", ranks, m, chunks, t).idle(),
                    hops * (t.forward + t.input_grad - t.weight_grad));
        }
      }
    }
  }
}

TEST(ClosedForms, IdleOfGroupsThatAreNoMultipleOfTheRanks) {
  const Ticks t{10, 12, 8};
  for (const char* spec :
       {"interleaved-1f1b", "interleaved-1f1b:group=6,rule=megatron",
        "interleaved-1f1b:group=5,rule=megatron", "interleaved-zb", "interleaved-zb:group=5"}) {
    const bool split = std::string_view(spec).starts_with("interleaved-zb");
    int shapes = 0;
    for (const int m : {5, 6, 7, 9, 10, 14, 15}) {
      const Shape shape{.stages = 8, .chunks = 2, .micro_batches = m};
      if (error_of([&] { ScheduleSpec::parse(spec).options(shape); }) != "no error") continue;
      ++shapes;
      EXPECT_EQ(Batch(spec, 4, m, 2, t).idle(),
                3 * (t.forward + t.input_grad + (split ? -1 : 1) * t.weight_grad))
          << spec << " M=" << m;
    }
    EXPECT_GE(shapes, 2) << spec;
  }
}

TEST(ClosedForms, ZbVLeavesNoIdleTimeWhereAllTimesAreEqual) {
  for (const int ranks : {1, 2, 3, 4, 5, 8, 16}) {
    for (const int m : micro_batches(2 * ranks - 1)) {
      const Batch batch("zb-v", ranks, m, 2);
      EXPECT_EQ(batch.longest_span(), 3 * m * 2) << ranks << " " << m;
      EXPECT_EQ(batch.makespan(), 3 * m * 2 + ranks - 1) << ranks << " " << m;
      EXPECT_EQ(batch.most_tapes(), 2 * ranks);
    }
  }
}

TEST(ClosedForms, IdleOfDualPipeV) {  // I = F, W <= F; a block takes F + B
  for (const Ticks& t : {Ticks{1, 1, 1}, Ticks{10, 10, 8}, Ticks{10, 10, 3}}) {
    for (const int ranks : {1, 2, 3, 4, 5, 8}) {
      for (const int m : micro_batches(2 * ranks)) {
        const Batch batch("dualpipev", ranks, m, 2, t);
        EXPECT_EQ(batch.makespan() - 2 * m * t.all(),
                  (ranks - 1) * (t.all() + t.backward() - 3 * t.weight_grad))
            << ranks << " " << m;
        EXPECT_EQ(batch.most_tapes(), 2 * ranks + 1);
      }
    }
  }
}

TEST(ClosedForms, TapesOfTheWorstRank) {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const int m : {3 * ranks, 6 * ranks}) {
      EXPECT_EQ(Batch("gpipe", ranks, m).most_tapes(), m);
      EXPECT_EQ(Batch("1f1b", ranks, m).most_tapes(), ranks);
      EXPECT_EQ(Batch("zb-h1", ranks, m).most_tapes(), ranks);
      EXPECT_EQ(Batch("zb-h2", ranks, m).most_tapes(), 2 * ranks - 1);
      for (const int chunks : {2, 3}) {
        EXPECT_EQ(Batch("looped-bfs", ranks, m, chunks).most_tapes(), m * chunks);
        EXPECT_EQ(Batch("interleaved-1f1b", ranks, m, chunks).most_tapes(),
                  ranks * chunks + ranks - 1);
        EXPECT_EQ(Batch("interleaved-zb", ranks, m, chunks).most_tapes(), ranks * chunks);
      }
    }
  }
}

TEST(ClosedForms, TapesOfEachRankOfInterleavedSchedules) {
  for (const int ranks : {2, 3, 4}) {
    for (const int chunks : {2, 3}) {
      for (const int m : {1, 2, ranks, ranks + 1, 4 * ranks}) {
        const int rounds = std::max(1, m / ranks);
        if (m % rounds != 0) continue;
        const int group = m / rounds;
        std::vector<int> whole, split;
        for (int r = 0; r < ranks; ++r) {
          whole.push_back(std::min(m * chunks, 2 * (ranks - 1 - r) + (chunks - 1) * group + 1));
          split.push_back(std::min(m * chunks, (chunks - 1) * group + ranks));
        }
        EXPECT_EQ(Batch("interleaved-1f1b", ranks, m, chunks).tapes(), whole) << ranks << " " << m;
        EXPECT_EQ(Batch("interleaved-zb", ranks, m, chunks).tapes(), split) << ranks << " " << m;
      }
    }
  }
}

TEST(ClosedForms, BytesOfEachRankOfTheZeroBubbleOrders) {
  constexpr int ranks = 4, tape = 100, for_weight = 30;
  MemorySizes sizes;
  sizes.activation.assign(ranks, tape);
  sizes.weight_grad_activation.assign(ranks, for_weight);
  std::vector<std::int64_t> h1, h2;
  for (int r = 0; r < ranks; ++r) {
    h1.push_back((ranks - r) * tape + r * for_weight);
    h2.push_back((2 * (ranks - r) - 1) * tape + 2 * r * for_weight);
  }
  EXPECT_EQ(Batch("zb-h1", ranks, 12, 1, {}, sizes).peak_bytes(), h1);
  EXPECT_EQ(Batch("zb-h2", ranks, 12, 1, {}, sizes).peak_bytes(), h2);
}

TEST(ClosedForms, MessagesBetweenRanks) {
  for (const int ranks : {2, 4, 5}) {
    const int m = 2 * ranks;
    const int one_stage = 2 * m * (ranks - 1);
    EXPECT_EQ(Batch("zb-h1", ranks, m).messages(), one_stage);
    EXPECT_EQ(Batch("zb-h2", ranks, m).messages(), one_stage);
    for (const int chunks : {2, 3}) {
      const int cyclic = 2 * m * (ranks * chunks - 1);
      EXPECT_EQ(Batch("interleaved-1f1b", ranks, m, chunks).messages(), cyclic);
      EXPECT_EQ(Batch("looped-bfs", ranks, m, chunks).messages(), cyclic);
      EXPECT_EQ(Batch("interleaved-zb", ranks, m, chunks).messages(), cyclic);
    }
    EXPECT_EQ(Batch("zb-v", ranks, m, 2).messages(), 2 * one_stage);
    EXPECT_EQ(Batch("dualpipev", ranks, m, 2).messages(), 2 * one_stage);
    for (const int waves : {1, 2, 3}) {
      EXPECT_EQ(Batch(fmt::format("hanayo:waves={}", waves), ranks, m, 2 * waves).messages(),
                2 * waves * one_stage);
    }
  }
}

/// The boundaries (stage before it) that have a link of their own.
std::vector<int> linked(std::string_view spec, const Shape& shape) {
  const TaskGraph graph = graph_of(spec, shape, costs_of(Ticks{1, 1, 1, 1}, shape.stages).links());
  std::vector<int> boundaries;
  for (const Lane& lane : graph.lanes()) {
    if (lane.engine == Engine::link_forward) boundaries.push_back(lane.boundary.value);
  }
  std::sort(boundaries.begin(), boundaries.end());
  return boundaries;
}

TEST(Transfers, TakeNoLinkWhereTheSnakeTurns) {
  const Shape v{.stages = 8, .chunks = 2, .micro_batches = 8};
  for (const char* spec : {"zb-v", "dualpipev", "hanayo"}) {
    EXPECT_THAT(linked(spec, v), testing::ElementsAre(0, 1, 2, 4, 5, 6)) << spec;
  }
  EXPECT_THAT(linked("hanayo:waves=2", {.stages = 12, .chunks = 4, .micro_batches = 3}),
              testing::ElementsAre(0, 1, 3, 4, 6, 7, 9, 10));
}

TEST(Transfers, TakeALinkFromTheLastRankBackToTheFirst) {
  const Shape cyclic{.stages = 8, .chunks = 2, .micro_batches = 8};
  for (const char* spec : {"interleaved-1f1b", "interleaved-zb", "looped-bfs"}) {
    EXPECT_THAT(linked(spec, cyclic), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6)) << spec;
  }
  // One micro-batch passes every stage both ways: 7 messages each.
  EXPECT_EQ(Batch("interleaved-1f1b", 4, 1, 2, {1, 1, 1, 5}).makespan(), 8 * 3 + 2 * 7 * 5);
  EXPECT_EQ(Batch("zb-v", 4, 1, 2, {1, 1, 0, 5}).makespan(), 8 * 2 + 2 * 6 * 5);
}

}  // namespace
}  // namespace unlatch::sim
