#include "exec/cuda_parameter_math.h"

#include <utility>

#include "exec/cuda_parameter_kernels.h"
#include "exec/cuda_square_sum.h"
#include "models/data_parallel.h"

namespace unlatch::exec::cuda {
namespace {

std::size_t floats(const Tensor& tensor) { return tensor.bytes() / sizeof(float); }

}  // namespace

/// Moves with the server's weights, whose steps every copy takes in turn.
GradientCheck* CudaParameterMath::check() {
  if (check_.empty()) return nullptr;
  check_ = device_.brought(std::move(check_));
  return device_.write<GradientCheck>(check_);
}

void CudaParameterMath::clear(Tensor& tensor) {
  if (tensor.empty()) return;  // layers without parameters
  device_.call("cudaMemsetAsync", cudaMemsetAsync, device_.write<void>(tensor), 0, tensor.bytes(),
               device_.stream());
}

void CudaParameterMath::add(const Tensor& more, Tensor& sum) {
  const Tensor here = device_.brought(more);
  device_.launch(launch_add, Precision::fp32, device_.read<void>(here), device_.write<void>(sum),
                 floats(sum));
}

void CudaParameterMath::compensate(const Compensation& spec, Tensor& mean_square, Tensor& gradient,
                                   const Tensor& weights, const Tensor& sent) {
  mean_square = device_.brought(std::move(mean_square));
  const CompensationStep step{.lambda = static_cast<float>(spec.lambda),
                              .decay = static_cast<float>(spec.decay),
                              .least = static_cast<float>(models::least_mean_square),
                              .unscale = static_cast<float>(unscale_)};
  device_.launch(
      launch_compensate, step, mean_square.empty() ? nullptr : device_.write(mean_square),
      device_.write(gradient), device_.read(weights), device_.read(sent), floats(gradient));
}

void CudaParameterMath::local_step(const LocalStep& spec, Tensor& weights, const Tensor& gradient,
                                   const Tensor& earlier, double rate) {
  const LocalStepFactors step{.rate = static_cast<float>(rate),
                              .own = static_cast<float>(spec.own),
                              .server = static_cast<float>(spec.server),
                              .kept = static_cast<float>(models::kept_share(spec, rate)),
                              .decay = static_cast<float>(spec.decay),
                              .unscale = static_cast<float>(unscale_)};
  device_.launch(launch_local_step, step, device_.write(weights), device_.read(gradient),
                 device_.read(earlier), floats(weights), check());
}

/// AR compresses the gradients of all copies where it runs.
void CudaParameterMath::compress(const Compression& spec, int update, Gathered& gathered,
                                 Tensor& gradient) {
  if (gradient.empty()) return;
  gathered.momentum = device_.brought(std::move(gathered.momentum));
  gathered.sum = device_.brought(std::move(gathered.sum));
  const Tensor here = device_.brought(gradient);
  const std::size_t n = floats(here);
  const CompressionStep step{
      .clip = spec.clip,
      .unscale = unscale_,
      .momentum = static_cast<float>(spec.momentum),
      .sent = static_cast<std::uint32_t>(models::entries_sent(spec, update, n))};
  const Tensor scratch = device_.take(sizeof(CompressionScratch));
  device_.launch(launch_compress, step, device_.write(gathered.momentum),
                 device_.write(gathered.sum), device_.write(here), n, check(),
                 device_.write<CompressionScratch>(scratch));
  if (here.data<std::byte>() != gradient.data<std::byte>()) device_.copy_into(gradient, here);
}

Tensor CudaParameterMath::square_sum(const Tensor& gradient) {
  Tensor sum = device_.take(sizeof(double));
  const Tensor shares = device_.take(square_shares * sizeof(double));
  device_.launch(launch_square_sum, Precision::fp32, device_.read<void>(gradient), floats(gradient),
                 unscale_ * unscale_, 0.0, device_.write<double>(shares),
                 device_.write<double>(sum));
  return sum;
}

/// The sums may have been made on other devices.
void CudaParameterMath::clip(double most, std::span<const Tensor> squares, Tensor& gradient) {
  if (gradient.empty()) return;  // layers without parameters
  const Tensor sum = device_.copy_of(squares.front());
  for (const Tensor& of_one : squares.subspan(1)) {
    const Tensor here = device_.brought(of_one);
    device_.launch(launch_add_double, device_.read<double>(here), device_.write<double>(sum));
  }
  device_.launch(launch_clip, most, device_.read<double>(sum), device_.write(gradient),
                 floats(gradient));
}

void CudaParameterMath::note_step(double kept, Tensor& mean, const Tensor& before,
                                  const Tensor& after) {
  device_.launch(launch_note_step, static_cast<float>(kept), device_.write(mean),
                 device_.read(before), device_.read(after), floats(mean));
}

void CudaParameterMath::move_back(int delay, const Tensor& mean, Tensor& weights) {
  device_.launch(launch_move_back, static_cast<float>(delay), device_.read(mean),
                 device_.write(weights), floats(weights));
}

}  // namespace unlatch::exec::cuda
