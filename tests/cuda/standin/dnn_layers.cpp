// The stand-in of cuDNN: batch normalisation and pooling.
#include <algorithm>
#include <cmath>

#include "tests/cuda/standin/dnn.h"

using namespace unlatch::standin;

namespace {

/// Channel c of every sample, in one piece.
template <class F>
void each_of_channel(const cudnnTensorStruct& t, int c, F f) {
  const int plane = t.h * t.w;
  for (int n = 0; n < t.n; ++n) {
    for (int i = 0; i < plane; ++i) f(static_cast<std::size_t>((n * t.c + c) * plane + i));
  }
}

bool norm_fits(const cudnnTensorStruct& x, const cudnnTensorStruct& y,
               const cudnnTensorStruct& vector, cudnnBatchNormMode_t mode) {
  return mode == CUDNN_BATCHNORM_SPATIAL && x == y &&
         vector == cudnnTensorStruct{Number::float32, 1, x.c, 1, 1};
}

struct Windows {
  cudnnPoolingStruct pooling;
  cudnnTensorStruct x, y;

  bool fit() const {
    const auto out = [&](int in, int window) {
      return (in + 2 * pooling.padding - window) / pooling.stride + 1;
    };
    return x.n == y.n && x.c == y.c && x.number == y.number && y.h == out(x.h, pooling.height) &&
           y.w == out(x.w, pooling.width);
  }
  bool is_maximum() const { return pooling.mode == CUDNN_POOLING_MAX_DETERMINISTIC; }
};

/// Calls f(output) and then g(input) for each of its window, without the padding.
template <class F, class G>
void each_window(const Windows& s, F f, G g) {
  for (int plane = 0; plane < s.x.n * s.x.c; ++plane) {
    for (int h = 0; h < s.y.h; ++h) {
      for (int w = 0; w < s.y.w; ++w) {
        f(static_cast<std::size_t>((plane * s.y.h + h) * s.y.w + w));
        const int top = h * s.pooling.stride - s.pooling.padding;
        const int left = w * s.pooling.stride - s.pooling.padding;
        for (int p = std::max(top, 0); p < std::min(top + s.pooling.height, s.x.h); ++p) {
          for (int q = std::max(left, 0); q < std::min(left + s.pooling.width, s.x.w); ++q) {
            g(static_cast<std::size_t>((plane * s.x.h + p) * s.x.w + q));
          }
        }
      }
    }
  }
}

}  // namespace

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_descriptor, const void* x,
    const cudnnTensorDescriptor_t y_descriptor, void* y,
    const cudnnTensorDescriptor_t vector_descriptor, const void* scale, const void* shift,
    double share, void* running_mean, void* running_variance, double epsilon, void* saved_mean,
    void* saved_inverse) {
  const cudnnTensorStruct shape = *x_descriptor;
  const bool both = (running_mean == nullptr) == (running_variance == nullptr);
  if (!norm_fits(shape, *y_descriptor, *vector_descriptor, mode) || !both || factor(alpha) != 1 ||
      factor(beta) != 0) {
    return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "descriptors that do not fit");
  }
  std::vector<Range> memory = {of(x_descriptor, x), of(y_descriptor, y)};
  for (const void* vector : {scale, shift, static_cast<const void*>(saved_mean),
                             static_cast<const void*>(saved_inverse)}) {
    memory.push_back(of(vector_descriptor, vector));
  }
  if (running_mean != nullptr) {
    memory.push_back(of(vector_descriptor, running_mean));
    memory.push_back(of(vector_descriptor, running_variance));
  }
  return dnn_put("cudnnBatchNormalizationForwardTraining", handle, memory, [=] {
    const std::vector<float> xs = floats(shape, x);
    std::vector<float> ys(xs.size());
    const double n = static_cast<double>(shape.n) * shape.h * shape.w;
    for (int c = 0; c < shape.c; ++c) {
      double mean = 0, variance = 0;
      each_of_channel(shape, c, [&](std::size_t i) { mean += xs[i] / n; });
      each_of_channel(shape, c,
                      [&](std::size_t i) { variance += (xs[i] - mean) * (xs[i] - mean) / n; });
      const double inverse = 1 / std::sqrt(variance + epsilon);
      const double g = static_cast<const float*>(scale)[c];
      const double b = static_cast<const float*>(shift)[c];
      each_of_channel(shape, c, [&](std::size_t i) {
        ys[i] = static_cast<float>(g * (xs[i] - mean) * inverse + b);
      });
      static_cast<float*>(saved_mean)[c] = static_cast<float>(mean);
      static_cast<float*>(saved_inverse)[c] = static_cast<float>(inverse);
      const auto move = [&](void* running, double value) {
        float& all = static_cast<float*>(running)[c];
        all = static_cast<float>((1 - share) * all + share * value);
      };
      if (running_mean == nullptr) continue;
      move(running_mean, mean);
      move(running_variance, n > 1 ? variance * n / (n - 1) : variance);
    }
    blend(ys, 1, 0, y, shape.number);
  });
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data, const void* beta_data,
    const void* alpha_parameters, const void* beta_parameters,
    const cudnnTensorDescriptor_t x_descriptor, const void* x,
    const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
    const cudnnTensorDescriptor_t dx_descriptor, void* dx,
    const cudnnTensorDescriptor_t vector_descriptor, const void* scale, void* scale_gradient,
    void* shift_gradient, double, const void* saved_mean, const void* saved_inverse) {
  const cudnnTensorStruct shape = *x_descriptor;
  if (!norm_fits(shape, *dy_descriptor, *vector_descriptor, mode) || shape != *dx_descriptor ||
      factor(alpha_data) != 1 || factor(beta_data) != 0 || factor(alpha_parameters) != 1 ||
      factor(beta_parameters) != 0) {
    return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "descriptors that do not fit");
  }
  std::vector<Range> memory = {of(x_descriptor, x), of(dy_descriptor, dy), of(dx_descriptor, dx)};
  for (const void* vector : {scale, static_cast<const void*>(scale_gradient),
                             static_cast<const void*>(shift_gradient), saved_mean, saved_inverse}) {
    memory.push_back(of(vector_descriptor, vector));
  }
  return dnn_put("cudnnBatchNormalizationBackward", handle, memory, [=] {
    const std::vector<float> xs = floats(shape, x), dys = floats(shape, dy);
    std::vector<float> dxs(xs.size());
    const double n = static_cast<double>(shape.n) * shape.h * shape.w;
    for (int c = 0; c < shape.c; ++c) {
      const double mean = static_cast<const float*>(saved_mean)[c];
      const double inverse = static_cast<const float*>(saved_inverse)[c];
      const double g = static_cast<const float*>(scale)[c];
      double sum = 0, product = 0;
      each_of_channel(shape, c, [&](std::size_t i) {
        sum += dys[i];
        product += dys[i] * (xs[i] - mean) * inverse;
      });
      each_of_channel(shape, c, [&](std::size_t i) {
        const double normal = (xs[i] - mean) * inverse;
        dxs[i] = static_cast<float>(g * inverse * (dys[i] - sum / n - normal * product / n));
      });
      static_cast<float*>(scale_gradient)[c] = static_cast<float>(product);
      static_cast<float*>(shift_gradient)[c] = static_cast<float>(sum);
    }
    blend(dxs, 1, 0, dx, shape.number);
  });
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling,
                                  const void* alpha, const cudnnTensorDescriptor_t x_descriptor,
                                  const void* x, const void* beta,
                                  const cudnnTensorDescriptor_t y_descriptor, void* y) {
  const Windows s{*pooling, *x_descriptor, *y_descriptor};
  const float a = factor(alpha), b = factor(beta);
  if (!s.fit()) return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "descriptors that do not fit");
  return dnn_put("cudnnPoolingForward", handle, {of(x_descriptor, x), of(y_descriptor, y)}, [=] {
    const std::vector<float> xs = floats(s.x, x);
    std::vector<float> ys(s.y.elements());
    const auto window = static_cast<float>(s.pooling.height * s.pooling.width);
    std::size_t to = 0;
    each_window(
        s,
        [&](std::size_t output) {
          to = output;
          ys[to] = s.is_maximum() ? -INFINITY : 0;
        },
        [&](std::size_t from) {
          if (!s.is_maximum()) {
            ys[to] += xs[from] / window;
          } else if (xs[from] > ys[to] || std::isnan(xs[from])) {
            ys[to] = xs[from];
          }
        });
    blend(ys, a, b, y, s.y.number);
  });
}

/// The first of the largest gets it all.
cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling,
                                   const void* alpha, const cudnnTensorDescriptor_t y_descriptor,
                                   const void* y, const cudnnTensorDescriptor_t dy_descriptor,
                                   const void* dy, const cudnnTensorDescriptor_t x_descriptor,
                                   const void* x, const void* beta,
                                   const cudnnTensorDescriptor_t dx_descriptor, void* dx) {
  const Windows s{*pooling, *x_descriptor, *y_descriptor};
  const float a = factor(alpha), b = factor(beta);
  if (!s.fit() || *dy_descriptor != s.y || *dx_descriptor != s.x) {
    return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "descriptors that do not fit");
  }
  return dnn_put(
      "cudnnPoolingBackward", handle,
      {of(x_descriptor, x), of(y_descriptor, y), of(dy_descriptor, dy), of(dx_descriptor, dx)},
      [=] {
        const std::vector<float> xs = floats(s.x, x), ys = floats(s.y, y);
        const std::vector<float> dys = floats(s.y, dy);
        std::vector<float> dxs(s.x.elements());
        const auto window = static_cast<float>(s.pooling.height * s.pooling.width);
        std::size_t at = 0;
        bool given = false;
        each_window(
            s,
            [&](std::size_t output) {
              at = output;
              given = false;
            },
            [&](std::size_t input) {
              if (!s.is_maximum()) {
                dxs[input] += dys[at] / window;
              } else if (!given && xs[input] == ys[at]) {
                dxs[input] += dys[at];
                given = true;
              }
            });
        blend(dxs, a, b, dx, s.x.number);
      });
}
