// The stand-in of cuDNN: convolutions, as products of matrices.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/cuda/standin/dnn.h"

using namespace unlatch::standin;

namespace {

struct Shapes {
  cudnnTensorStruct x, y;
  cudnnFilterStruct w;
  cudnnConvolutionStruct convolution;
  bool tf32 = false;  ///< how products are taken

  std::size_t pixels() const { return static_cast<std::size_t>(y.h * y.w); }
  std::size_t outputs() const { return static_cast<std::size_t>(y.c / convolution.groups); }
  std::size_t weights() const { return w.elements() / static_cast<std::size_t>(y.c); }

  /// Calls f(sample, group, first output in y, first weight in w).
  template <class F>
  void each_part(F f) const {
    for (int n = 0; n < x.n; ++n) {
      for (int g = 0; g < convolution.groups; ++g) {
        const auto part = static_cast<std::size_t>(n * convolution.groups + g);
        f(n, g, part * outputs() * pixels(), static_cast<std::size_t>(g) * outputs() * weights());
      }
    }
  }

  bool fit() const {
    const auto out = [&](int in, int kernel) {
      return (in + 2 * convolution.padding - kernel) / convolution.stride + 1;
    };
    return x.n == y.n && x.c == w.c * convolution.groups && y.c == w.n &&
           y.c % convolution.groups == 0 && y.h == out(x.h, w.h) && y.w == out(x.w, w.w) &&
           x.number == y.number && x.number == w.number;
  }
};

/// Calls f(weight of a filter, output pixel, at in x) where a filter of the group meets sample n.
template <class F>
void each_meeting(const Shapes& s, int n, int group, F f) {
  const auto& [padding, stride, groups, math] = s.convolution;
  const int first = group * s.w.c;
  for (int c = 0; c < s.w.c; ++c) {
    for (int p = 0; p < s.w.h; ++p) {
      for (int q = 0; q < s.w.w; ++q) {
        for (int h = 0; h < s.y.h; ++h) {
          for (int w = 0; w < s.y.w; ++w) {
            const int row = h * stride + p - padding, column = w * stride + q - padding;
            if (row < 0 || row >= s.x.h || column < 0 || column >= s.x.w) continue;
            f(static_cast<std::size_t>((c * s.w.h + p) * s.w.w + q),
              static_cast<std::size_t>(h * s.y.w + w),
              static_cast<std::size_t>(((n * s.x.c + first + c) * s.x.h + row) * s.x.w + column));
          }
        }
      }
    }
  }
}

/// Row-major c[m][n] += a[m][k] b[k][n], the rows of a so far apart, its columns so far.
struct Strides {
  std::size_t row, column;
};
void multiply(std::size_t m, std::size_t n, std::size_t k, const float* a, Strides apart,
              const float* b, float* c) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      const float x = a[i * apart.row + j * apart.column];
      for (std::size_t l = 0; l < n; ++l) c[i * n + l] += x * b[j * n + l];
    }
  }
}

std::vector<float> factors(const Shapes& s, const cudnnTensorStruct& tensor, const void* at) {
  std::vector<float> values = floats(tensor, at);
  if (s.tf32) std::ranges::transform(values, values.begin(), as_tf32);
  return values;
}

// ---- algorithms --------------------------------------------------------------------------------

/// In the order of cuDNN's list: one that varies, one that wants much memory, one on tensor cores,
/// one that is exact.
struct Algorithm {
  cudnnDeterminism_t determinism;
  std::size_t memory;
  cudnnMathType_t math;
};
constexpr std::array<Algorithm, 4> algorithms = {{
    {CUDNN_NON_DETERMINISTIC, 0, CUDNN_FMA_MATH},
    {CUDNN_DETERMINISTIC, std::size_t{8} << 30, CUDNN_FMA_MATH},
    {CUDNN_DETERMINISTIC, 4096, CUDNN_TENSOR_OP_MATH},
    {CUDNN_DETERMINISTIC, 1024, CUDNN_FMA_MATH},
}};

/// Also what the math type of the convolution does not allow.
template <class Found>
cudnnStatus_t list(const cudnnHandle_t handle, const Shapes& s, int asked, int* returned,
                   Found* found) {
  if (handle->stream == nullptr || !s.fit()) {
    return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "descriptors that do not fit");
  }
  int n = 0;
  for (std::size_t a = 0; a < algorithms.size() && n < asked; ++a) {
    found[n] = {};
    found[n].algo = static_cast<decltype(found[n].algo)>(a);
    found[n].status = CUDNN_STATUS_SUCCESS;
    found[n].memory = algorithms[a].memory;
    found[n].determinism = algorithms[a].determinism;
    found[n].mathType = algorithms[a].math;
    ++n;
  }
  *returned = n;
  return CUDNN_STATUS_SUCCESS;
}

struct Space {
  int algorithm;
  void* memory;
  std::size_t bytes;
};

/// Refuses what the library should not have chosen; spoils the workspace when the work runs.
cudnnStatus_t put(const char* name, cudnnHandle_t handle, Shapes s, const Space& space,
                  std::vector<Range> memory, const std::function<void(const Shapes&)>& work) {
  if (!s.fit()) return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "descriptors that do not fit");
  const Algorithm& algorithm = algorithms.at(static_cast<std::size_t>(space.algorithm));
  const bool tensor_cores = algorithm.math == CUDNN_TENSOR_OP_MATH;
  if (algorithm.determinism != CUDNN_DETERMINISTIC || space.bytes < algorithm.memory ||
      (tensor_cores && s.convolution.math == CUDNN_FMA_MATH)) {
    return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "an algorithm that varies, lacks memory or rounds");
  }
  s.tf32 = tensor_cores && s.x.number == Number::float32;
  memory.push_back({space.memory, space.bytes});
  return dnn_put(name, handle, std::move(memory), [=] {
    std::memset(space.memory, 0xFF, space.bytes);
    work(s);
  });
}

}  // namespace

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    const int asked, int* returned, cudnnConvolutionFwdAlgoPerf_t* found) {
  return list(handle, {*x, *y, *w, *convolution}, asked, returned, found);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t y,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t x,
    const int asked, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* found) {
  return list(handle, {*x, *y, *w, *convolution}, asked, returned, found);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t y,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t w,
    const int asked, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* found) {
  return list(handle, {*x, *y, *w, *convolution}, asked, returned, found);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t x_descriptor, const void* x,
                                      const cudnnFilterDescriptor_t w_descriptor, const void* w,
                                      const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* space,
                                      std::size_t space_bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y_descriptor, void* y) {
  const float a = factor(alpha), b = factor(beta);
  return put(
      "cudnnConvolutionForward", handle,
      {*x_descriptor, *y_descriptor, *w_descriptor, *convolution}, {algorithm, space, space_bytes},
      {of(x_descriptor, x), of(w_descriptor, w), of(y_descriptor, y)}, [=](const Shapes& s) {
        const std::vector<float> xs = factors(s, s.x, x), ws = factors(s, s.w, w);
        std::vector<float> sums(s.y.elements());
        s.each_part([&](int n, int group, std::size_t output, std::size_t filter) {
          std::vector<float> met(s.weights() * s.pixels());
          each_meeting(s, n, group, [&](std::size_t weight, std::size_t pixel, std::size_t at) {
            met[weight * s.pixels() + pixel] = xs[at];
          });
          multiply(s.outputs(), s.pixels(), s.weights(), &ws[filter], {s.weights(), 1}, met.data(),
                   &sums[output]);
        });
        blend(sums, a, b, y, s.y.number);
      });
}

cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t w_descriptor,
    const void* w, const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdDataAlgo_t algorithm,
    void* space, std::size_t space_bytes, const void* beta,
    const cudnnTensorDescriptor_t dx_descriptor, void* dx) {
  const float a = factor(alpha), b = factor(beta);
  return put(
      "cudnnConvolutionBackwardData", handle,
      {*dx_descriptor, *dy_descriptor, *w_descriptor, *convolution},
      {algorithm, space, space_bytes},
      {of(dx_descriptor, dx), of(w_descriptor, w), of(dy_descriptor, dy)}, [=](const Shapes& s) {
        const std::vector<float> dys = factors(s, s.y, dy), ws = factors(s, s.w, w);
        std::vector<float> sums(s.x.elements());
        s.each_part([&](int n, int group, std::size_t output, std::size_t filter) {
          std::vector<float> met(s.weights() * s.pixels());
          multiply(s.weights(), s.pixels(), s.outputs(), &ws[filter], {1, s.weights()},
                   &dys[output], met.data());
          each_meeting(s, n, group, [&](std::size_t weight, std::size_t pixel, std::size_t at) {
            sums[at] += met[weight * s.pixels() + pixel];
          });
        });
        blend(sums, a, b, dx, s.x.number);
      });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_descriptor,
    const void* x, const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdFilterAlgo_t algorithm,
    void* space, std::size_t space_bytes, const void* beta,
    const cudnnFilterDescriptor_t dw_descriptor, void* dw) {
  const float a = factor(alpha), b = factor(beta);
  return put(
      "cudnnConvolutionBackwardFilter", handle,
      {*x_descriptor, *dy_descriptor, *dw_descriptor, *convolution},
      {algorithm, space, space_bytes},
      {of(x_descriptor, x), of(dw_descriptor, dw), of(dy_descriptor, dy)}, [=](const Shapes& s) {
        const std::vector<float> xs = factors(s, s.x, x), dys = factors(s, s.y, dy);
        std::vector<float> sums(s.w.elements());
        s.each_part([&](int n, int group, std::size_t output, std::size_t filter) {
          std::vector<float> met(s.pixels() * s.weights());
          each_meeting(s, n, group, [&](std::size_t weight, std::size_t pixel, std::size_t at) {
            met[pixel * s.weights() + weight] = xs[at];
          });
          multiply(s.outputs(), s.weights(), s.pixels(), &dys[output], {s.pixels(), 1}, met.data(),
                   &sums[filter]);
        });
        blend(sums, a, b, dw, s.w.number);
      });
}
