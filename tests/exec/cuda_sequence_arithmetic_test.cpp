// The arithmetic of the CUDA kernels for transformers against the plain implementation in double.
#include "exec/cuda_sequence_arithmetic.h"

#include <gtest/gtest.h>

#include "tests/exec/dnn_support.h"
#include "tests/exec/reference_sequence.h"

namespace unlatch::exec::cuda {
namespace {

using testing::Numbers;
using testing::Reference;

Numbers doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

TEST(CudaSequenceArithmetic, GeluAndItsGradientAreThoseWithErf) {
  std::vector<float> x = random_floats(200, 1);
  for (float& value : x) value *= 6;
  const std::vector<float> g = random_floats(x.size(), 2);
  const Numbers input = doubles(x);
  const Reference expected =
      testing::reference_of(models::Gelu{}, {{1, 1, 200, true}, 1, nullptr, input});
  const Numbers back = expected.backward(doubles(g), nullptr);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(gelu(x[i]), expected.output[i], 2e-6);
    EXPECT_NEAR(gelu_gradient(x[i], g[i]), back[i], 2e-6);
  }
}

TEST(CudaSequenceArithmetic, EmbedsAndAddsToTheTablesInTheOrderOfTheTokens) {
  const EmbeddingShape shape{.rows = 10, .positions = 5, .vocabulary = 4, .width = 3};
  const std::vector<float> tokens = {3, 0, 1, 1, 3, 0, 0, 3, 3, 1};
  const std::vector<float> tables = random_floats((4 + 5) * 3, 1), g = random_floats(30, 2);
  const Numbers input = doubles(tokens), weights = doubles(tables);
  const Reference expected = testing::reference_of(models::Embedding{.vocabulary = 4, .width = 3},
                                                   {{5, 1, 1, true}, 2, weights.data(), input});
  for (std::size_t i = 0; i < 30; ++i) {
    EXPECT_FLOAT_EQ(embedded(shape, tokens.data(), tables.data(), i),
                    static_cast<float>(expected.output[i]));
  }
  Numbers sums(tables.size(), 0.0);
  expected.backward(doubles(g), sums.data());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_NEAR(table_gradient(shape, tokens.data(), g.data(), i), sums[i], 1e-6) << i;
  }
}

TEST(CudaSequenceArithmetic, ATokenOutsideTheVocabularyShowsAsNoNumber) {
  const EmbeddingShape shape{.rows = 3, .positions = 3, .vocabulary = 2, .width = 1};
  const std::vector<float> tokens = {2, -1, NAN}, tables(5, 1.0F);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::isnan(embedded(shape, tokens.data(), tables.data(), i)));
  }
}

TEST(CudaSequenceArithmetic, NormGradientIsThatOfTheWholeRow) {
  constexpr std::size_t n = 8;
  const std::vector<float> x = random_floats(n, 1), g = random_floats(n, 2),
                           parameters = random_floats(2 * n, 3);
  const Numbers input = doubles(x), weights = doubles(parameters);
  const Reference expected =
      testing::reference_of(models::LayerNorm{}, {{1, 1, n, true}, 1, weights.data(), input});
  double sums[2 * n] = {};
  const Numbers back = expected.backward(doubles(g), sums);
  float mean = 0, inverse = 0, mean_g = 0, mean_product = 0;
  for (const float value : x) mean += value / n;
  for (const float value : x) inverse += (value - mean) * (value - mean) / n;
  inverse = 1 / std::sqrt(inverse + 1e-5F);
  const RowNorms norms{&mean, &inverse};
  for (std::size_t c = 0; c < n; ++c) {
    mean_g += parameters[c] * g[c] / n;
    mean_product += parameters[c] * g[c] * normalised(norms, x[c], 0) / n;
  }
  for (std::size_t c = 0; c < n; ++c) {
    EXPECT_NEAR(norm_gradient(norms, {&mean_g, &mean_product}, x[c], parameters[c] * g[c], 0),
                back[c], 1e-5);
  }
}

TEST(CudaSequenceArithmetic, RowsOfScoresSeeWhatTheirTokenSees) {
  const RowShape scores{.rows = 8, .size = 4};
  EXPECT_EQ(seen_in(scores, 0), 1);
  EXPECT_EQ(seen_in(scores, 3), 4);
  EXPECT_EQ(seen_in(scores, 4), 1) << "the next head begins again";
  const std::vector<float> row = {-3, 5, -2, 7};
  EXPECT_EQ(largest_of(row.data(), 3, 0, 2), -2);
  EXPECT_EQ(largest_of(row.data(), 3, 1, 2), 5);
  EXPECT_EQ(largest_of(row.data(), 1, 1, 2), -INFINITY);
}

}  // namespace
}  // namespace unlatch::exec::cuda
