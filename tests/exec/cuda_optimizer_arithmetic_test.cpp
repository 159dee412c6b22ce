// The optimizers' steps on the device, from the source that nvcc compiles, against the CPU's.
#include "exec/cuda_optimizer_arithmetic.h"

#include <gtest/gtest.h>

#include <random>
#include <variant>
#include <vector>

#include "exec/cuda_tensor_pieces.h"
#include "models/optimizer.h"

namespace unlatch::exec::cuda {
namespace {

using models::OptimizerSpec;
using models::ParameterTensor;

std::vector<float> random_floats(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-3, 3);
  std::vector<float> values(n);
  for (float& value : values) value = uniform(random);
  return values;
}

constexpr std::size_t weights_of_stage = 100;
const std::vector<ParameterTensor> tensors{{0, 60, true}, {60, 7, false}, {67, 33, true}};

/// Does on the host what the kernels do, with blocks of 8 threads and pieces of 16 weights.
class HostSteps {
 public:
  explicit HostSteps(const OptimizerSpec& spec, double loss_scale)
      : spec_(spec),
        loss_scale_(loss_scale),
        state_(static_cast<std::size_t>(spec.slots()) * weights_of_stage),
        tables_(tensor_pieces(tensors, 16)),
        squares_(tables_.pieces.size()),
        ratios_(tables_.tensors.size()) {}

  void step(std::vector<float>& weights, std::vector<float>& gradient, double rate,
            bool left_out = false) {
    count_.advance(spec_);
    const StagePointers stage{weights.data(), gradient.data(), state_.data(), weights.size()};
    std::visit([&](const auto& rule) { apply(rule, stage, left_out); },
               models::step_rule<float>(spec_, count_, rate, loss_scale_));
  }

 private:
  template <class Rule>
  void apply(const rules::Step<Rule>& rule, const StagePointers& stage, bool) {
    for (std::size_t i = 0; i < stage.n; ++i) {
      rule.apply(stage.weights[i], stage.gradient[i], stage.slots(i));
      stage.gradient[i] = 0;
    }
  }
  template <class Rule>
  void apply(const Rule& rule, const StagePointers& stage, bool left_out) {
    constexpr std::uint32_t threads = 8;
    const TensorTables tables{tables_.pieces.data(),
                              tables_.tensors.data(),
                              squares_.data(),
                              ratios_.data(),
                              static_cast<std::uint32_t>(tables_.pieces.size()),
                              static_cast<std::uint32_t>(tables_.tensors.size())};
    for (std::size_t piece = 0; piece < tables.piece_count; ++piece) {
      squares_[piece] = {};
      for (std::uint32_t t = 0; t < threads && !left_out; ++t) {
        squares_[piece] =
            sum_of(squares_[piece], measured_share(rule, tables, stage, piece, t, threads));
      }
    }
    for (std::size_t k = 0; k < tables.tensor_count; ++k) ratios_[k] = trust_ratio(rule, tables, k);
    for (std::size_t piece = 0; piece < tables.piece_count; ++piece) {
      for (std::uint32_t t = 0; t < threads; ++t) {
        step_share(rule, tables, stage, piece, t, threads, left_out);
      }
    }
  }

  OptimizerSpec spec_;
  double loss_scale_;
  std::vector<float> state_;
  TensorPieces tables_;
  std::vector<PieceSquares> squares_;
  std::vector<float> ratios_;
  models::StepCount count_;
};

std::vector<std::string> specs() {
  std::vector<std::string> all{"sgd:decay=0.01", "sum:momentum=0.8,s=2",
                               "rmsprop:momentum=0.9,centered=yes", "lars:momentum=0"};
  for (const std::string_view name : models::optimizer_names()) all.emplace_back(name);
  return all;
}

TEST(CudaOptimizerArithmetic, StepsWeightsAsTheOptimizersDo) {
  for (const std::string& text : specs()) {
    for (const double loss_scale : {1.0, 1024.0}) {
      SCOPED_TRACE(text);
      const OptimizerSpec spec = OptimizerSpec::parse(text);
      std::vector<float> expected = random_floats(weights_of_stage, 1);
      std::vector<float> weights = expected;
      models::Optimizer<float> optimizer(spec, tensors);
      HostSteps steps(spec, loss_scale);
      for (unsigned update = 0; update < 5; ++update) {
        const double rate = 0.1 / (update + 1);
        std::vector<float> gradient = random_floats(weights_of_stage, 10 + update);
        optimizer.step(expected, gradient, rate);
        for (float& g : gradient) g *= static_cast<float>(loss_scale);
        steps.step(weights, gradient, rate);
        EXPECT_EQ(gradient, std::vector<float>(weights_of_stage, 0.0F));
      }
      for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_FLOAT_EQ(weights[i], expected[i]);
    }
  }
}

TEST(CudaOptimizerArithmetic, LeavesOutAStepByTensors) {
  for (const char* text : {"lars", "lamb"}) {
    HostSteps steps(OptimizerSpec::parse(text), 1);
    const std::vector<float> before = random_floats(weights_of_stage, 1);
    std::vector<float> weights = before, gradient = random_floats(weights_of_stage, 2);
    steps.step(weights, gradient, 0.1, true);
    EXPECT_EQ(weights, before);
    EXPECT_EQ(gradient, std::vector<float>(weights_of_stage, 0.0F));
  }
}

TEST(CudaOptimizerArithmetic, PiecesCoverEveryTensorOnce) {
  const TensorPieces tables = tensor_pieces(tensors, 16);
  std::size_t next = 0;
  for (const TensorPiece& piece : tables.pieces) {
    EXPECT_EQ(piece.first, next);
    EXPECT_LE(piece.weights, 16U);
    next += piece.weights;
  }
  EXPECT_EQ(next, weights_of_stage);
  ASSERT_EQ(tables.tensors.size(), 3U);
  EXPECT_EQ(tables.tensors[1].first, 4U);
  EXPECT_EQ(tables.tensors[1].pieces, 1U);
  EXPECT_EQ(tables.tensors[1].adapted, 0U);
  EXPECT_EQ(tables.tensors[2].pieces, 3U);
}

}  // namespace
}  // namespace unlatch::exec::cuda
