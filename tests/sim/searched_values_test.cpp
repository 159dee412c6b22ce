// Numbers of the schedules that a search finds: rates of the zero-bubble paper's inputs for ZB-1p,
// ZB-2p and ZB-V, idle time and memory of V-Half and V-Min.
#include <gmock/gmock.h>

#include "schedules/zb_v_search.h"
#include "tests/sim/modern_support.h"

namespace unlatch::sim {
namespace {

using testing::DoubleNear;

/// Profiled times in microseconds of a rank, and the size of a layer.
struct Profile {
  int ranks, micro_batches;
  std::int64_t forward, input_grad, weight_grad, message;
  int hidden, heads;
  double of_1p, of_2p;

  /// Of a layer and sample, for 1024 tokens; what W still needs of it.
  std::int64_t tape() const { return 34 * hidden + 5 * heads * 1024; }
  std::int64_t tape_of_weight() const { return 32 * hidden; }

  Batch batch(int limit) const {
    const std::string spec =
        fmt::format("zb-auto:limit={},times={}/{}/{},comm={},memory={}", limit, forward, input_grad,
                    weight_grad, message, static_cast<double>(tape_of_weight()) / tape());
    MemorySizes sizes;
    sizes.activation.assign(ranks, tape());
    sizes.weight_grad_activation.assign(ranks, tape_of_weight());
    return Batch(spec, ranks, micro_batches, 1, {forward, input_grad, weight_grad, message}, sizes);
  }
};

TEST(SearchedRates, AreThoseOfTheZeroBubbleTableWithinTheMemoryLimit) {
  const std::vector<Profile> table{
      {8, 24, 18522, 18086, 9337, 601, 2304, 24, 0.1585, 0.0433},
      {8, 64, 18546, 18097, 9321, 762, 2304, 24, 0.0674, 0.0026},
      {8, 24, 29718, 29444, 19927, 527, 4096, 32, 0.1323, 0.0029},
      {8, 64, 29935, 29621, 19388, 535, 4096, 32, 0.0554, 0.0010},
      {16, 48, 11347, 11248, 8132, 377, 5120, 40, 0.1397, 0.0066},
      {16, 128, 11325, 11308, 8109, 378, 5120, 40, 0.0576, 0.0028},
      {32, 96, 10419, 10207, 7715, 408, 6144, 48, 0.1421, 0.0038},
      {32, 256, 10402, 10248, 7698, 460, 6144, 48, 0.0594, 0.0018},
  };
  for (const Profile& row : table) {
    for (const int limit : {1, 2}) {
      SCOPED_TRACE(fmt::format("P={} M={} limit={}", row.ranks, row.micro_batches, limit));
      const Batch batch = row.batch(limit);
      EXPECT_THAT(batch.rate(), DoubleNear(limit == 1 ? row.of_1p : row.of_2p, 0.5e-4));
      for (const std::int64_t bytes : batch.peak_bytes()) {
        EXPECT_LE(bytes, limit * row.ranks * row.tape());
      }
    }
  }
}

TEST(SearchedValues, OfZeroBubbleAutoAreThoseOfTheWorkedExample) {
  const Batch two("zb-auto:limit=2", 4, 8);
  EXPECT_EQ(two.makespan(), 27);
  EXPECT_EQ(two.longest_span(), 24);
  EXPECT_THAT(two.tapes(), testing::Each(8));
}

TEST(SearchedValues, WithinOneTapeARankTheBubbleIsThatOfZbH1) {
  for (const auto& [ranks, m] : {std::pair(4, 8), {8, 24}, {16, 64}}) {
    EXPECT_EQ(Batch("zb-auto", ranks, m).idle(), Batch("zb-h1", ranks, m).idle());
  }
}

/// ZB-V in the order that is found for these times of a stage.
Batch searched_v(int ranks, int micro_batches, const Ticks& ticks) {
  return Batch(fmt::format("zb-v:order=search,times={}/{}/{},comm={}", ticks.forward,
                           ticks.input_grad, ticks.weight_grad, ticks.message),
               ranks, micro_batches, 2, ticks);
}

TEST(SearchedRates, OfZbVAreThoseOfTheSecondSetWithinTheMemoryLimit) {
  struct Row {
    int ranks, micro_batches;
    Ticks ticks;  ///< microseconds, of half a rank's share
    double rate;
  };
  const std::vector<Row> table{
      {16, 48, {14407, 14380, 9676, 1610}, 0.0697},  {16, 64, {14412, 14393, 9688, 1621}, 0.0533},
      {16, 128, {14316, 14306, 9639, 1619}, 0.0274}, {32, 96, {9458, 9748, 7288, 879}, 0.0593},
      {32, 128, {9469, 9744, 7306, 892}, 0.0451},    {32, 256, {9447, 9644, 7193, 887}, 0.0236},
  };
  for (const Row& row : table) {
    SCOPED_TRACE(fmt::format("P={} M={}", row.ranks, row.micro_batches));
    const Batch batch = searched_v(row.ranks, row.micro_batches, row.ticks);
    EXPECT_THAT(batch.rate(), DoubleNear(row.rate, 0.5e-4));
    EXPECT_EQ(batch.most_tapes(), 2 * row.ranks);
  }
}

TEST(SearchedValues, OfZbVAreThoseOfTheWorkedExample) {
  const Batch batch("zb-v:order=search", 4, 8, 2);
  EXPECT_EQ(batch.makespan(), 25.5 * 2);
  EXPECT_EQ(batch.longest_span(), 24 * 2);
  EXPECT_THAT(batch.tapes(), testing::Each(4 * 2));
}

/// A fit to the search itself, beyond the table: no idle time from 2P-1 micro-batches on, as in the
/// fixed order.
TEST(SearchedValues, OfZbVAtEqualTimesIdleOnlyForWantOfMicroBatches) {
  for (int ranks = 1; ranks <= 12; ++ranks) {
    for (int m = 1; m <= 2 * ranks + 3; ++m) {
      const Batch batch("zb-v:order=search", ranks, m, 2);
      EXPECT_EQ(batch.idle(), std::max({0, 2 * ranks - 1 - m, 4 * (ranks - m) - 1}))
          << "P=" << ranks << " M=" << m;
    }
  }
}

TEST(SearchedValues, OfZbVIdleForTheTimeThatTheSearchExpects) {
  for (const Ticks& t : {Ticks{10, 12, 8, 0}, Ticks{10, 10, 5, 3}, Ticks{3, 2, 1, 2},
                         Ticks{7, 9, 13, 4}, Ticks{20, 5, 9, 5}}) {
    for (const int ranks : {1, 2, 3, 4, 5, 8}) {
      for (const int m : {1, 2, 4, 7, 8, 16}) {
        const VCosts costs{static_cast<double>(t.forward), static_cast<double>(t.input_grad),
                           static_cast<double>(t.weight_grad), static_cast<double>(t.message)};
        EXPECT_EQ(searched_v(ranks, m, t).idle(), search_v(ranks, m, costs).most_idle())
            << fmt::format("P={} M={} F={} I={} W={}", ranks, m, t.forward, t.input_grad,
                           t.weight_grad);
      }
    }
  }
}

TEST(SearchedValues, OfZbVIdleLessThanTheFixedOrderWhereTimesAreUnequal) {
  const Ticks longer_input{10, 12, 8}, half_weight{10, 10, 5};
  for (const Ticks& t : {longer_input, half_weight}) {
    EXPECT_LT(searched_v(4, 8, t).idle(), Batch("zb-v", 4, 8, 2, t).idle()) << t.weight_grad;
  }
}

/// In times of a rank's share with F=I=W=1, two stages a rank.
struct VShaped {
  const char* spec;
  int ranks, micro_batches;
  double idle;
  int memory;
};

class VShapes : public testing::TestWithParam<VShaped> {};

TEST_P(VShapes, IdleAndHoldWhatTheTableSays) {
  const VShaped& row = GetParam();
  SCOPED_TRACE(fmt::format("{} P={} M={}", row.spec, row.ranks, row.micro_batches));
  const Batch batch(row.spec, row.ranks, row.micro_batches, 2);
  EXPECT_EQ(batch.idle(), 2 * row.idle);
  EXPECT_EQ(batch.most_tapes(), 2 * row.memory);
}

std::vector<VShaped> v_shapes() {
  std::vector<VShaped> all;
  const auto add = [&](const char* spec, int ranks, double idle, int memory) {
    for (const int m : {2 * ranks, 3 * ranks, 4 * ranks}) {
      all.push_back({spec, ranks, m, idle, memory});
    }
  };
  for (const auto& [ranks, idle] : {std::pair(3, 2.5),
                                    {4, 2.5},
                                    {5, 5.5},
                                    {6, 5.5},
                                    {7, 8.5},
                                    {8, 8.5},
                                    {9, 11.5},
                                    {12, 14.5},
                                    {16, 20.5}}) {
    add("v-half", ranks, idle, (ranks + 2) / 2);
  }
  for (const auto& [ranks, idle] : {std::pair(4, 5.5),
                                    {5, 7.5},
                                    {6, 8.5},
                                    {7, 11.5},
                                    {8, 13.5},
                                    {9, 14.5},
                                    {12, 20.5},
                                    {16, 29.5}}) {
    add("v-min", ranks, idle, (ranks + 4) / 3);
  }
  all.push_back({"v-half", 8, 64, 8.5, 5});
  all.push_back({"v-min", 8, 64, 13.5, 4});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Searched, VShapes, testing::ValuesIn(v_shapes()));

TEST(SearchedValues, OfTheWorkedVExamplesHoldTheSameOnEveryRank) {
  const Batch half("v-half", 4, 8, 2), min("v-min", 4, 8, 2);
  EXPECT_EQ(half.makespan(), 53);
  EXPECT_THAT(half.tapes(), testing::Each(6));
  EXPECT_EQ(min.makespan(), 59);
  EXPECT_THAT(min.tapes(), testing::Each(4));
}

}  // namespace
}  // namespace unlatch::sim
