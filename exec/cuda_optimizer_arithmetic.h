// What blocks of threads do of a step by tensors (lars, lamb), one thread's share at a time; it
// follows the rules of cuda_arithmetic.h. The rules themselves are those of the CPU.
#pragma once

#include "exec/cuda_arithmetic.h"
#include "models/optimizer_rules.h"
#include "models/trust_rules.h"

namespace unlatch::exec::cuda {

namespace rules = models::rules;

/// A run of a tensor's weights that one block of threads measures and steps.
struct TensorPiece {
  static constexpr std::size_t most = 1 << 15;  ///< weights
  std::uint64_t first;
  std::uint32_t weights;
  std::uint32_t tensor;
};
/// A tensor's pieces, which follow each other.
struct PiecesOfTensor {
  std::uint32_t first;
  std::uint32_t pieces;
  std::uint32_t adapted;  ///< 0: no trust ratio, no decay
};
/// Sums of squares of a piece.
struct PieceSquares {
  double weights;
  double measured;
};
/// What a step by tensors works with, on the device.
struct TensorTables {
  const TensorPiece* pieces;
  const PiecesOfTensor* tensors;
  PieceSquares* squares;  ///< by piece
  float* ratios;          ///< by tensor
  std::uint32_t piece_count;
  std::uint32_t tensor_count;
};
/// What it steps: n weights and what belongs to them, the state as models::Optimizer has it.
struct StagePointers {
  float* weights;
  float* gradient;
  float* state;
  std::size_t n;
  UNLATCH_HOST_DEVICE rules::Slots<float> slots(std::size_t i) const { return {state + i, n}; }
};

UNLATCH_HOST_DEVICE inline PieceSquares sum_of(const PieceSquares& a, const PieceSquares& b) {
  return {a.weights + b.weights, a.measured + b.measured};
}

/// One of `parts` shares of a piece, whose weights go to the shares in turn.
template <class Rule>
UNLATCH_HOST_DEVICE PieceSquares measured_share(const Rule& rule, const TensorTables& tables,
                                                const StagePointers& stage, std::size_t number,
                                                std::uint32_t part, std::uint32_t parts) {
  const TensorPiece piece = tables.pieces[number];
  const bool adapted = tables.tensors[piece.tensor].adapted != 0;
  PieceSquares sum{};
  for (std::uint32_t j = part; j < piece.weights; j += parts) {
    const std::size_t i = piece.first + j;
    const double weight = stage.weights[i];
    const double measured =
        rule.measure(stage.weights[i], stage.gradient[i], adapted, stage.slots(i));
    sum = sum_of(sum, {weight * weight, measured * measured});
  }
  return sum;
}

template <class Rule>
UNLATCH_HOST_DEVICE float trust_ratio(const Rule& rule, const TensorTables& tables,
                                      std::size_t number) {
  const PiecesOfTensor tensor = tables.tensors[number];
  if (tensor.adapted == 0) return 1;
  PieceSquares sum{};
  for (std::uint32_t piece = 0; piece < tensor.pieces; ++piece) {
    sum = sum_of(sum, tables.squares[tensor.first + piece]);
  }
  return rule.ratio(std::sqrt(sum.weights), std::sqrt(sum.measured));
}

/// Steps one share of a piece unless the step is left out; clears its gradient.
template <class Rule>
UNLATCH_HOST_DEVICE void step_share(const Rule& rule, const TensorTables& tables,
                                    const StagePointers& stage, std::size_t number,
                                    std::uint32_t part, std::uint32_t parts, bool left_out) {
  const TensorPiece piece = tables.pieces[number];
  const bool adapted = tables.tensors[piece.tensor].adapted != 0;
  const float ratio = tables.ratios[piece.tensor];
  for (std::uint32_t j = part; j < piece.weights; j += parts) {
    const std::size_t i = piece.first + j;
    if (!left_out) {
      rule.apply(stage.weights[i], stage.gradient[i], adapted, ratio, stage.slots(i));
    }
    stage.gradient[i] = 0;
  }
}

}  // namespace unlatch::exec::cuda
