// The tables by which a step by tensors (lars, lamb) is shared out among blocks of threads.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "exec/cuda_optimizer_arithmetic.h"
#include "models/parameter_tensors.h"

namespace unlatch::exec::cuda {

struct TensorPieces {
  std::vector<TensorPiece> pieces;
  std::vector<PiecesOfTensor> tensors;
};

/// Pieces of at most so many weights, in the order of the weights.
inline TensorPieces tensor_pieces(std::span<const models::ParameterTensor> tensors,
                                  std::size_t most = TensorPiece::most) {
  TensorPieces tables;
  for (const models::ParameterTensor& tensor : tensors) {
    const auto number = static_cast<std::uint32_t>(tables.tensors.size());
    const auto before = static_cast<std::uint32_t>(tables.pieces.size());
    for (std::size_t at = 0; at < tensor.elements; at += most) {
      const std::size_t weights = std::min(most, tensor.elements - at);
      tables.pieces.push_back({tensor.first + at, static_cast<std::uint32_t>(weights), number});
    }
    const auto behind = static_cast<std::uint32_t>(tables.pieces.size());
    tables.tensors.push_back({before, behind - before, tensor.adapted ? 1U : 0U});
  }
  return tables;
}

}  // namespace unlatch::exec::cuda
