#include "exec/cuda_head_kernels.h"

#include "exec/cuda_each.cuh"
#include "exec/cuda_gradient_check.cuh"

namespace unlatch::exec::cuda {
namespace {

template <class T>
struct AddConstants {
  const float* constants;
  ConstantRows rows;
  T* y;
  __device__ void operator()(std::size_t i) const {
    y[i] = T(wide(y[i]) + constants[constant_of(rows, i)]);
  }
};

template <class T>
struct Slope {
  float factor;
  const T* g;
  T* p;
  __device__ void operator()(std::size_t i) const { p[i] = T(factor * (wide(p[i]) - wide(g[i]))); }
};

template <class T>
struct StepConstants {
  NormalisedStep step;
  const T* slope;
  ConstantRows rows;
  float* constants;
  __device__ void operator()(std::size_t column) const {
    if (!leaves_out(step.check)) {
      step_constants(rows, slope, column, step.rate / *step.energy, constants);
    }
  }
};

struct StepMap {
  NormalisedStep step;
  float* weights;
  float* gradient;
  __device__ void operator()(std::size_t i) const {
    if (!leaves_out(step.check)) {
      weights[i] -= static_cast<float>(step.rate / *step.energy) * gradient[i];
    }
    gradient[i] = 0;
  }
};

}  // namespace

void launch_add_constants(StreamHandle stream, Precision precision, const float* constants,
                          ConstantRows rows, void* y, std::size_t n) {
  with_type(precision, [=](auto t) {
    launch(stream, n, AddConstants<decltype(t)>{constants, rows, as(y, t)});
  });
}

void launch_slope(StreamHandle stream, Precision precision, float factor, const void* g, void* p,
                  std::size_t n) {
  with_type(precision, [=](auto t) {
    launch(stream, n, Slope<decltype(t)>{factor, as(g, t), as(p, t)});
  });
}

void launch_synthesiser_step(StreamHandle stream, Precision precision, NormalisedStep step,
                             const void* slope, ConstantRows rows, float* constants, float* weights,
                             float* gradient, std::size_t n) {
  if (step.check != nullptr) launch(stream, n, LookForNotFinite{gradient, step.check});
  with_type(precision, [=](auto t) {
    launch(stream, static_cast<std::size_t>(rows.row),
           StepConstants<decltype(t)>{step, as(slope, t), rows, constants});
  });
  launch(stream, n, StepMap{step, weights, gradient});
  if (step.check != nullptr) launch(stream, 1, EndStep{step.check});
}

}  // namespace unlatch::exec::cuda
