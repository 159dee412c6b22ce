#include "exec/cuda_optimizer.h"

#include <cstring>
#include <utility>

#include "exec/cuda_optimizer_kernels.h"
#include "exec/cuda_tensor_pieces.h"

namespace unlatch::exec::cuda {
namespace {

std::size_t floats(const Tensor& tensor) { return tensor.bytes() / sizeof(float); }

template <class T>
Tensor upload_table(Device& device, Rank rank, const std::vector<T>& rows) {
  static_assert(sizeof(T) % sizeof(float) == 0);
  std::vector<float> words(rows.size() * sizeof(T) / sizeof(float));
  if (!rows.empty()) std::memcpy(words.data(), rows.data(), rows.size() * sizeof(T));
  return device.upload(rank, words);
}

template <class T>
std::uint32_t rows_of(const Tensor& table) {
  return static_cast<std::uint32_t>(table.bytes() / sizeof(T));
}

}  // namespace

CudaOptimizer::CudaOptimizer(const models::OptimizerSpec& spec,
                             const std::vector<models::ParameterTensor>& tensors, double loss_scale,
                             Device& device, Rank rank)
    : spec_(spec), loss_scale_(loss_scale), device_(device) {
  std::size_t parameters = 0;
  for (const models::ParameterTensor& tensor : tensors) parameters += tensor.elements;
  const auto slots = static_cast<std::size_t>(spec.slots());
  if (slots > 0) state_ = device.upload(rank, std::vector<float>(slots * parameters, 0.0F));
  if (!spec.is_per_tensor()) return;
  const TensorPieces tables = tensor_pieces(tensors);
  pieces_ = upload_table(device, rank, tables.pieces);
  tensors_ = upload_table(device, rank, tables.tensors);
}

/// A server's weights are stepped by all copies in turn, on the devices of their ranks.
void CudaOptimizer::step(const Tensor& weights, const Tensor& gradient, double rate,
                         GradientCheck* check) {
  state_ = device_.brought(std::move(state_));
  count_.advance(spec_);
  const StagePointers stage{device_.write(weights), device_.write(gradient),
                            state_.empty() ? nullptr : device_.write(state_), floats(weights)};
  std::visit(
      [&]<class Rule>(const Rule& rule) {
        if constexpr (requires { rule.ratio(1.0, 1.0); }) {
          step_tensors(rule, stage, check);
        } else {
          device_.launch(launch_step<decltype(rule.rule)>, rule, stage, check);
        }
      },
      models::step_rule<float>(spec_, count_, rate, loss_scale_));
}

template <class Rule>
void CudaOptimizer::step_tensors(const Rule& rule, const StagePointers& stage,
                                 GradientCheck* check) {
  pieces_ = device_.brought(std::move(pieces_));
  tensors_ = device_.brought(std::move(tensors_));
  const auto pieces = rows_of<TensorPiece>(pieces_);
  const auto tensors = rows_of<PiecesOfTensor>(tensors_);
  const Tensor squares = device_.take(pieces * sizeof(PieceSquares));
  const Tensor ratios = device_.take(tensors * sizeof(float));
  if (pieces == 0) return;  // layers without parameters
  const TensorTables tables{device_.read<TensorPiece>(pieces_),
                            device_.read<PiecesOfTensor>(tensors_),
                            device_.write<PieceSquares>(squares),
                            device_.write<float>(ratios),
                            pieces,
                            tensors};
  device_.launch(launch_tensor_step<Rule>, rule, stage, tables, check);
}

void CudaOptimizer::coast(const Tensor& weights, int steps, double rate) {
  const auto factor = static_cast<float>(models::coast_factor(spec_, steps, rate));
  if (state_.empty()) return;
  device_.launch(launch_coast, factor, device_.read(state_), device_.write(weights),
                 floats(weights));
}

}  // namespace unlatch::exec::cuda
