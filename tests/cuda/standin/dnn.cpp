// The stand-in of cuDNN: versions, handles and descriptors.
#include "tests/cuda/standin/dnn.h"

#include <fmt/format.h>

#include <utility>

using namespace unlatch::standin;

namespace unlatch::standin {
namespace {

std::string& reason() {
  static auto& text = *new std::string;
  return text;
}

cudnnStatus_t number_of(cudnnDataType_t type, Number& number) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      number = Number::float32;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_DATA_BFLOAT16:
      number = Number::bfloat16;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_DATA_HALF:
      number = Number::half;
      return CUDNN_STATUS_SUCCESS;
    default:
      return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "a type of numbers that is not here");
  }
}

cudnnStatus_t set(cudnnTensorStruct& tensor, cudnnDataType_t type, cudnnTensorFormat_t format,
                  int n, int c, int h, int w) {
  if (format != CUDNN_TENSOR_NCHW || n < 1 || c < 1 || h < 1 || w < 1) {
    return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor of no tensor");
  }
  tensor.n = n;
  tensor.c = c;
  tensor.h = h;
  tensor.w = w;
  return number_of(type, tensor.number);
}

template <class T>
cudnnStatus_t make(T** descriptor) {
  *descriptor = new T{};
  return CUDNN_STATUS_SUCCESS;
}
template <class T>
cudnnStatus_t destroy(T* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t dnn_refuse(cudnnStatus_t status, const char* why) {
  reason() = why;
  return status;
}

cudnnStatus_t dnn_put(const char* name, cudnnHandle_t handle, std::vector<Range> memory,
                      std::function<void()> work) {
  const cudaError_t error = put_kernel(name, handle->stream, std::move(memory), std::move(work));
  if (error == cudaSuccess) return CUDNN_STATUS_SUCCESS;
  return dnn_refuse(CUDNN_STATUS_EXECUTION_FAILED, cudaGetErrorString(error));
}

}  // namespace unlatch::standin

std::size_t cudnnGetVersion() { return settings().cudnn == 0 ? CUDNN_VERSION : settings().cudnn; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  static std::string text;
  text = fmt::format("CUDNN_STATUS {} ({})", static_cast<int>(status), reason());
  return text.c_str();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext{.device = World::instance().current};
  return CUDNN_STATUS_SUCCESS;
}
/// It waits for the device.
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  World::instance().require_no_obstacle("cudnnDestroy");
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (!World::instance().is_live(stream) || stream->device != handle->device) {
    return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "the stream is not of the handle's device");
  }
  if (handle->stream != nullptr && handle->stream != stream) {
    return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a handle for two streams");
  }
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

// ---- descriptors -------------------------------------------------------------------------------

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) { return make(tensor); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return destroy(tensor);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  return set(*tensor, type, format, n, c, h, w);
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) { return make(filter); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return destroy(filter);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return set(*filter, type, format, k, c, h, w);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  return make(convolution);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  return destroy(convolution);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t type) {
  if (pad_h != pad_w || stride_h != stride_w || dilation_h != 1 || dilation_w != 1 ||
      mode != CUDNN_CROSS_CORRELATION || type != CUDNN_DATA_FLOAT) {
    return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "a convolution that is not here");
  }
  convolution->padding = pad_h;
  convolution->stride = stride_h;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  if (groups < 1) return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "no group");
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t math) {
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* pooling) {
  return make(pooling);
}
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t pooling) {
  return destroy(pooling);
}
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t nan, int height, int width,
                                          int pad_h, int pad_w, int stride_h, int stride_w) {
  // An average over padding would need to know which kind counts it.
  const bool pads = pad_h != 0 || pad_w != 0;
  if (nan != CUDNN_PROPAGATE_NAN || pad_h != pad_w || stride_h != stride_w ||
      (pads && mode != CUDNN_POOLING_MAX_DETERMINISTIC)) {
    return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "a pooling that is not here");
  }
  *pooling = {mode, height, width, pad_h, stride_h};
  return CUDNN_STATUS_SUCCESS;
}
