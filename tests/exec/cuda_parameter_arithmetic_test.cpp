// The arithmetic of the CUDA kernels of servers, compression and stale backwards, from the source
// that nvcc compiles, against the CPU's.
#include "exec/cuda_parameter_arithmetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "models/data_parallel.h"
#include "models/drift.h"

namespace unlatch::exec::cuda {
namespace {

using Floats = std::vector<float>;

Floats random_floats(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-3, 3);
  Floats values(n);
  for (float& value : values) value = uniform(random);
  return values;
}

void expect_close(const Floats& found, const Floats& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-5 * std::max(1.0F, std::abs(expected[i]))) << i;
  }
}

/// What the device adds with a loss scale is what the CPU adds without.
TEST(CudaParameterArithmetic, CompensatesAsTheCpuUnderALossScale) {
  for (const bool adaptive : {false, true}) {
    SCOPED_TRACE(adaptive ? "adaptive" : "constant");
    const Compensation spec{.lambda = 0.7, .adaptive = adaptive, .decay = 0.9};
    constexpr float scale = 64;
    Floats expected_square(adaptive ? 50 : 0), square(50);
    for (unsigned step = 0; step < 3; ++step) {
      const Floats weights = random_floats(50, 1 + step), sent = random_floats(50, 11 + step);
      Floats expected = random_floats(50, 21 + step), gradient = expected;
      models::compensate<float>(spec, expected_square, expected, weights, sent);
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] *= scale;
        compensate({0.7F, 0.9F, static_cast<float>(models::least_mean_square), 1 / scale},
                   adaptive ? &square[i] : nullptr, gradient[i], weights[i], sent[i]);
        gradient[i] /= scale;
      }
      expect_close(gradient, expected);
    }
  }
}

TEST(CudaParameterArithmetic, LeavesAGradientThatIsNotFiniteForTheOptimizer) {
  float square = 0.5F;
  float gradient = std::numeric_limits<float>::infinity();
  compensate({0.7F, 0.9F, 0, 1}, &square, gradient, 1, 2);
  EXPECT_EQ(gradient, std::numeric_limits<float>::infinity());
  EXPECT_EQ(square, 0.5F);
}

TEST(CudaParameterArithmetic, StepsACopyAloneAsTheCpu) {
  const LocalStep spec{.own = 0.9, .server = 0.4, .decay = 0.02, .decays_pre = true};
  constexpr double rate = 0.3;
  constexpr float scale = 8;
  Floats expected = random_floats(40, 1), weights = expected;
  const Floats gradient = random_floats(40, 2), earlier = random_floats(40, 3);
  models::local_step<float>(spec, expected, gradient, earlier, rate);
  const LocalStepFactors step{
      0.3F, 0.9F, 0.4F, static_cast<float>(models::kept_share(spec, rate)), 0.02F, 1 / scale};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    local_step(step, weights[i], scale * gradient[i], earlier[i]);
  }
  expect_close(weights, expected);
}

TEST(CudaParameterArithmetic, FollowsADriftAsTheCpu) {
  Floats expected(30), mean(30);
  for (unsigned step = 0; step < 3; ++step) {
    const Floats before = random_floats(30, step), after = random_floats(30, 10 + step);
    models::note_step<float>(0.8F, expected, before, after);
    for (std::size_t i = 0; i < mean.size(); ++i) note_step(0.8F, mean[i], before[i], after[i]);
  }
  expect_close(mean, expected);
}

// ---- the largest entries ------------------------------------------------------------------------

/// As the kernels go about it, in so many shares.
void keep_largest(Floats& sums, Floats& momentum, Floats& gradient, std::uint32_t sent, int parts) {
  Selection selection{0, sent};
  std::vector<std::uint32_t> counts(static_cast<std::size_t>(digits * parts));
  for (int shift = 32 - bits_a_round; shift >= 0; shift -= bits_a_round) {
    std::uint32_t of_digits[digits] = {};
    for (int part = 0; part < parts; ++part) {
      count_digits(selection, shift, sums.data(), sums.size(), part, parts, counts.data());
    }
    for (int i = 0; i < digits * parts; ++i) of_digits[i / parts] += counts[i];
    choose_digit(selection, shift, of_digits);
  }
  std::uint32_t before = 0;
  for (int piece = 0; piece < parts; ++piece) {
    const std::uint32_t here = count_least(selection, sums.data(), sums.size(), piece, parts);
    take_largest(selection, sums.data(), momentum.data(), gradient.data(), sums.size(), piece,
                 parts, before);
    before += here;
  }
}

/// Entries of few magnitudes, so that many are equal, and of many.
TEST(CudaParameterArithmetic, SendsTheEntriesThatTheCpuSends) {
  constexpr double ratios[] = {0.01, 0.1, 0.5, 0.93};
  for (const std::size_t n : {std::size_t{1}, std::size_t{2}, std::size_t{37}, std::size_t{500}}) {
    for (const double ratio : ratios) {
      for (const bool coarse : {false, true}) {
        for (const int parts : {1, 3, 64}) {
          SCOPED_TRACE(testing::Message() << n << " entries, " << ratio << (coarse ? " coarse" : "")
                                          << ", " << parts << " parts");
          const Compression spec{.ratio = ratio, .momentum = 0.5};
          Floats momentum(n), sums(n), expected_momentum(n), expected_sums(n);
          for (unsigned update = 0; update < 4; ++update) {
            Floats gradient = random_floats(n, update);
            if (coarse) {
              for (float& g : gradient) g = std::round(g);
            }
            Floats expected = gradient;
            models::compress<float>(spec, static_cast<int>(update), expected_momentum,
                                    expected_sums, expected);
            for (std::size_t i = 0; i < n; ++i) gather(0.5F, gradient[i], momentum[i], sums[i]);
            keep_largest(sums, momentum, gradient,
                         static_cast<std::uint32_t>(models::entries_sent(spec, 0, n)), parts);
            ASSERT_EQ(gradient, expected);
            ASSERT_EQ(momentum, expected_momentum);
            ASSERT_EQ(sums, expected_sums);
          }
        }
      }
    }
  }
}

TEST(CudaParameterArithmetic, CutsEntriesIntoPiecesInARow) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{99}, std::size_t{1000}}) {
    for (const int parts : {1, 7, 128}) {
      EXPECT_EQ(piece_begin(n, 0, parts), 0U);
      EXPECT_EQ(piece_begin(n, parts, parts), n);
      for (int piece = 0; piece < parts; ++piece) {
        EXPECT_LE(piece_begin(n, piece, parts), piece_begin(n, piece + 1, parts));
      }
    }
  }
}

}  // namespace
}  // namespace unlatch::exec::cuda
