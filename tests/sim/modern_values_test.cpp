// Numbers of the synchronous pipeline schedules: the check values of the worked examples, the
// reference rates of the zero-bubble paper's inputs, and single values of the derivations.
//
// A stage takes whole ticks, so that what a rank's share of the model takes is V times that.
#include <gmock/gmock.h>

#include "tests/sim/modern_support.h"

namespace unlatch::sim {
namespace {

using testing::DoubleNear;

constexpr double four_digits = 0.5e-4;

struct Example {
  const char* spec;
  int chunks, micro_batches;
  /// In times of a rank's share with F=I=W=1.
  double makespan, longest_span, idle;
  std::vector<double> peaks;  ///< tapes of a rank's share, by rank
};

class CheckValues : public testing::TestWithParam<Example> {};

TEST_P(CheckValues, AreThoseOfTheWorkedExample) {
  const Example& e = GetParam();
  const Batch batch(e.spec, 4, e.micro_batches, e.chunks);
  EXPECT_EQ(batch.makespan(), e.makespan * e.chunks);
  EXPECT_EQ(batch.longest_span(), e.longest_span * e.chunks);
  EXPECT_EQ(batch.idle(), e.idle * e.chunks);
  const std::vector<int> tapes = batch.tapes();
  for (std::size_t r = 0; r < e.peaks.size(); ++r) {
    EXPECT_EQ(tapes[r], e.peaks[r] * e.chunks) << "rank " << r;
  }
}

// DualPipeV's blocks take F and B in a row, and what F gives leaves at the end of the block: were
// it handed over at once, the makespan would be 25.5.
INSTANTIATE_TEST_SUITE_P(
    Modern, CheckValues,
    testing::Values(Example{"gpipe:backward=ascending", 1, 8, 33, 33, 9, {8, 8, 8, 8}},
                    Example{"1f1b", 1, 8, 33, 33, 9, {4, 3, 2, 1}},
                    Example{"interleaved-1f1b", 2, 8, 28.5, 28.5, 4.5, {5.5, 4.5, 3.5, 2.5}},
                    Example{"looped-bfs", 2, 8, 28.5, 28.5, 4.5, {8, 8, 8, 8}},
                    Example{"zb-h1", 1, 8, 27, 27, 3, {4, 4, 4, 4}},
                    Example{"zb-h2", 1, 8, 27, 24, 0, {7, 7, 7, 7}},
                    Example{"interleaved-zb", 2, 8, 25.5, 25.5, 1.5, {4, 4, 4, 4}},
                    Example{"zb-v", 2, 8, 25.5, 24, 0, {4, 4, 4, 4}},
                    Example{"dualpipev", 2, 8, 27, 27, 3, {4.5, 4.5, 4.5, 4.5}},
                    Example{"hanayo", 2, 8, 32.5, 32.5, 8.5, {4, 4.5, 5, 5.5}},
                    Example{"hanayo:waves=2", 4, 4, 15.25, 15.25, 3.25, {3.25, 3.5, 4, 4}}));

/// Profiled times in microseconds of a rank's share.
struct Profile {
  int ranks, micro_batches;
  std::int64_t forward, input_grad, weight_grad, message;
  double of_1f1b, of_h1, of_h2;
  int chunks = 0;  ///< stages a rank of the interleaved column
  double of_interleaved = 0;

  Ticks ticks(int chunks_a_rank) const {
    const auto nanoseconds = [&](std::int64_t us) {
      return (us * 1000 + chunks_a_rank / 2) / chunks_a_rank;
    };
    return {nanoseconds(forward), nanoseconds(input_grad), nanoseconds(weight_grad),
            message * 1000};
  }
  double rate(const char* spec, int chunks_a_rank = 1) const {
    return Batch(spec, ranks, micro_batches, chunks_a_rank, ticks(chunks_a_rank)).rate();
  }
};

TEST(ProfiledRates, AreThoseOfTheZeroBubbleTable) {
  const std::vector<Profile> table{
      {8, 24, 18522, 18086, 9337, 601, 0.2431, 0.1585, 0.1083, 3, 0.1090},
      {8, 64, 18546, 18097, 9321, 762, 0.1240, 0.0674, 0.0444, 3, 0.0461},
      {8, 24, 29718, 29444, 19927, 527, 0.2347, 0.1323, 0.0698, 4, 0.0827},
      {8, 64, 29935, 29621, 19388, 535, 0.1091, 0.0554, 0.0294, 4, 0.0328},
      {16, 48, 11347, 11248, 8132, 377, 0.2552, 0.1397, 0.0672, 3, 0.1136},
      {16, 128, 11325, 11308, 8109, 378, 0.1251, 0.0576, 0.0266, 3, 0.0459},
      {32, 96, 10419, 10207, 7715, 408, 0.2646, 0.1421, 0.0641, 2, 0.1528},
      {32, 256, 10402, 10248, 7698, 460, 0.1352, 0.0594, 0.0257, 2, 0.0641},
  };
  for (const Profile& row : table) {
    SCOPED_TRACE(fmt::format("P={} M={} F={}us", row.ranks, row.micro_batches, row.forward));
    EXPECT_THAT(row.rate("1f1b"), DoubleNear(row.of_1f1b, four_digits));
    EXPECT_THAT(row.rate("zb-h1"), DoubleNear(row.of_h1, four_digits));
    EXPECT_THAT(row.rate("zb-h2"), DoubleNear(row.of_h2, four_digits));
    EXPECT_THAT(row.rate("interleaved-1f1b", row.chunks),
                DoubleNear(row.of_interleaved, four_digits));
  }
}

TEST(ProfiledRates, AreThoseOfTheSecondSet) {  // given per half of a rank's share
  const std::vector<Profile> table{
      {16, 48, 14407, 14380, 9676, 1610, 0.2668, 0.1536, 0.0823},
      {16, 64, 14412, 14393, 9688, 1621, 0.2206, 0.1198, 0.0630},
      {16, 128, 14316, 14306, 9639, 1619, 0.1390, 0.0637, 0.0325},
      {32, 96, 9458, 9748, 7288, 879, 0.2676, 0.1429, 0.0629},
      {32, 128, 9469, 9744, 7306, 892, 0.2204, 0.1111, 0.0478},
      {32, 256, 9447, 9644, 7193, 887, 0.1362, 0.0593, 0.0251},
  };
  for (Profile row : table) {
    for (std::int64_t* half : {&row.forward, &row.input_grad, &row.weight_grad}) *half *= 2;
    SCOPED_TRACE(fmt::format("P={} M={} F={}us", row.ranks, row.micro_batches, row.forward));
    EXPECT_THAT(row.rate("1f1b"), DoubleNear(row.of_1f1b, four_digits));
    EXPECT_THAT(row.rate("zb-h1"), DoubleNear(row.of_h1, four_digits));
    EXPECT_THAT(row.rate("zb-h2"), DoubleNear(row.of_h2, four_digits));
  }
}

TEST(SingleValues, OneForwardOneBackward) {
  struct Row {
    int ranks, micro_batches, makespan;
    double rate;
  };
  for (const Row& row : {Row{8, 24, 93, 0.2258}, Row{8, 32, 117, 0.1795}, Row{8, 64, 213, 0.0986},
                         Row{16, 64, 237, 0.1899}}) {
    const Batch batch("1f1b", row.ranks, row.micro_batches);
    EXPECT_EQ(batch.makespan(), row.makespan);
    EXPECT_THAT(batch.rate(), DoubleNear(row.rate, four_digits));
  }
}

TEST(SingleValues, DualPipeVInTicksOfAHalfStage) {
  struct Row {
    int ranks, micro_batches, makespan;
  };
  for (const Row& row : {Row{4, 8, 54}, Row{4, 10, 66}, Row{6, 12, 82}, Row{8, 16, 110},
                         Row{8, 20, 134}, Row{8, 32, 206}, Row{16, 64, 414}}) {
    const Batch batch("dualpipev", row.ranks, row.micro_batches, 2);
    EXPECT_EQ(batch.makespan(), row.makespan) << row.ranks << " " << row.micro_batches;
    EXPECT_EQ(batch.makespan(), 6 * row.micro_batches + 2 * (row.ranks - 1));
  }
}

TEST(SingleValues, UnequalTimesInTenths) {
  const Ticks longer_input{10, 12, 8}, half_weight{10, 10, 5}, longer_weight{10, 10, 12};
  EXPECT_EQ(Batch("zb-h1", 4, 16, 1, longer_input).idle(), 42);
  EXPECT_EQ(Batch("zb-h2", 4, 16, 1, longer_input).idle(), 18);
  EXPECT_EQ(Batch("zb-h1", 4, 16, 1, half_weight).idle(), 45);
  EXPECT_EQ(Batch("zb-h2", 4, 16, 1, half_weight).idle(), 30);
  EXPECT_EQ(Batch("zb-h1", 4, 8, 1, longer_weight).idle(), 30);
  EXPECT_EQ(Batch("zb-h2", 4, 8, 1, longer_weight).idle(), 0);
  const Batch zb_v("zb-v", 4, 8, 2, longer_input);
  EXPECT_EQ(zb_v.makespan(), 258 * 2);
  EXPECT_EQ(zb_v.longest_span(), 252 * 2);
  EXPECT_EQ(Batch("zb-v", 4, 8, 2, half_weight).idle(), 15 * 2);
}

TEST(SingleValues, FewMicroBatches) {
  for (int m = 1; m <= 7; ++m) {
    EXPECT_EQ(Batch("zb-h1", 4, m).idle(), m < 4 ? 7 - m : 3) << m;
    EXPECT_EQ(Batch("zb-h2", 4, m).idle(), 7 - m) << m;
  }
  EXPECT_EQ(Batch("interleaved-zb", 4, 3, 2).idle(), 2.5 * 2);
  EXPECT_EQ(Batch("interleaved-1f1b", 4, 3, 2).idle(), 6.0 * 2);
  EXPECT_EQ(Batch("looped-bfs", 8, 4, 2).idle(), 16.5 * 2);
}

TEST(SingleValues, RatesOfTheWavesFoundGreedily) {
  struct Row {
    int ranks, waves;
    double rate;
  };
  for (const Row& row : {Row{4, 1, 0.3333}, Row{4, 2, 0.2131}, Row{4, 4, 0.1193}, Row{8, 1, 0.3684},
                         Row{8, 2, 0.2381}, Row{8, 4, 0.1351}}) {
    const Batch batch(fmt::format("hanayo:waves={}", row.waves), row.ranks, row.ranks,
                      2 * row.waves);
    EXPECT_THAT(batch.rate(), DoubleNear(row.rate, four_digits)) << row.ranks << " " << row.waves;
  }
}

}  // namespace
}  // namespace unlatch::sim
