#include "exec/host_parameter_math.h"

#include <algorithm>
#include <functional>

#include "models/data_parallel.h"
#include "models/drift.h"
#include "models/gradient_clip.h"

namespace unlatch::exec {
namespace {

template <class Real>
std::span<const Real> read(const Tensor& tensor) {
  return tensor.as<const Real>();
}

}  // namespace

template <class Real>
void HostParameterMath<Real>::clear(Tensor& tensor) {
  std::ranges::fill(tensor.as<Real>(), Real{0});
}

template <class Real>
void HostParameterMath<Real>::add(const Tensor& more, Tensor& sum) {
  std::ranges::transform(read<Real>(sum), read<Real>(more), sum.data<Real>(), std::plus<>());
}

template <class Real>
void HostParameterMath<Real>::compensate(const Compensation& spec, Tensor& mean_square,
                                         Tensor& gradient, const Tensor& weights,
                                         const Tensor& sent) {
  models::compensate(spec, mean_square.as<Real>(), gradient.as<Real>(), read<Real>(weights),
                     read<Real>(sent));
}

template <class Real>
void HostParameterMath<Real>::local_step(const LocalStep& spec, Tensor& weights,
                                         const Tensor& gradient, const Tensor& earlier,
                                         double rate) {
  models::local_step(spec, weights.as<Real>(), read<Real>(gradient), read<Real>(earlier), rate);
}

template <class Real>
void HostParameterMath<Real>::compress(const Compression& spec, int update, Gathered& gathered,
                                       Tensor& gradient) {
  models::compress(spec, update, gathered.momentum.as<Real>(), gathered.sum.as<Real>(),
                   gradient.as<Real>());
}

template <class Real>
Tensor HostParameterMath<Real>::square_sum(const Tensor& gradient) {
  Tensor sum = pool_.take(sizeof(double));
  double squares = 0;
  for (const double g : read<Real>(gradient)) squares += g * g;
  *sum.data<double>() = squares;
  return sum;
}

double sum_of(std::span<const Tensor> squares) {
  double sum = 0;
  for (const Tensor& of_one : squares) sum += *of_one.data<double>();
  return sum;
}

template <class Real>
void HostParameterMath<Real>::clip(double most, std::span<const Tensor> squares, Tensor& gradient) {
  const double factor = models::clip_factor(most, sum_of(squares));
  if (factor == 1) return;
  for (Real& g : gradient.as<Real>()) g *= static_cast<Real>(factor);
}

template <class Real>
void HostParameterMath<Real>::note_step(double kept, Tensor& mean, const Tensor& before,
                                        const Tensor& after) {
  models::note_step(static_cast<Real>(kept), mean.as<Real>(), read<Real>(before),
                    read<Real>(after));
}

template <class Real>
void HostParameterMath<Real>::move_back(int delay, const Tensor& mean, Tensor& weights) {
  models::move_back(delay, read<Real>(mean), weights.as<Real>());
}

template class HostParameterMath<float>;
template class HostParameterMath<double>;

}  // namespace unlatch::exec
