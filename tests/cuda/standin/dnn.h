// What the files of cuDNN's stand-in share: handles, descriptors and refusals.
#pragma once

#include <cudnn.h>

#include <string>

#include "tests/cuda/standin/device.h"
#include "tests/cuda/standin/numbers.h"

struct cudnnContext {
  int device = 0;
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  unlatch::standin::Number number;
  int n = 0, c = 0, h = 0, w = 0;
  std::size_t elements() const {
    return std::size_t{1} * static_cast<std::size_t>(n) * static_cast<std::size_t>(c) *
           static_cast<std::size_t>(h) * static_cast<std::size_t>(w);
  }
  std::size_t bytes() const { return elements() * unlatch::standin::bytes_of(number); }
  bool operator==(const cudnnTensorStruct&) const = default;
};
struct cudnnFilterStruct : cudnnTensorStruct {};  ///< n: outputs, c: inputs of a group
struct cudnnConvolutionStruct {
  int padding = 0, stride = 1, groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};
struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  int height = 0, width = 0, padding = 0, stride = 1;
};

namespace unlatch::standin {

cudnnStatus_t dnn_refuse(cudnnStatus_t status, const char* why);

/// Puts a call of the library on the stream of the handle.
cudnnStatus_t dnn_put(const char* name, cudnnHandle_t handle, std::vector<Range> memory,
                      std::function<void()> work);

inline Range of(const cudnnTensorStruct* tensor, const void* at) { return {at, tensor->bytes()}; }
inline std::vector<float> floats(const cudnnTensorStruct& tensor, const void* at) {
  return floats(at, tensor.number, tensor.elements());
}
inline float factor(const void* host_float) { return *static_cast<const float*>(host_float); }

}  // namespace unlatch::standin
