// Op: one layer as calls of cuDNN, cuBLAS or own kernels; the private seam of the cuda_*.cpp files.
#pragma once

#include <memory>

#include "exec/cuda_device.h"
#include "exec/layer_op.h"

namespace unlatch::exec::cuda {

/// Where a layer sits. Tensors are numbers of the precision, densely [samples, channels, height,
/// width]; weights, their gradients and statistics are float32.
struct Place {
  Device* device = nullptr;
  int samples = 1;
  models::SampleShape shape;

  Precision precision() const { return device->settings().precision; }
  std::size_t elements() const {
    return static_cast<std::size_t>(samples) * static_cast<std::size_t>(shape.elements());
  }
  /// Samples, or their tokens.
  int rows() const { return samples * shape.rows(); }
  std::size_t bytes() const { return elements() * bytes_of(precision()); }
  ChannelShape channels() const { return {samples, shape.channels, shape.height * shape.width}; }
};

/// Calls enqueue on the lane of the task at hand; tensors follow the rules of the CPU's layers.
using Op = LayerOp<Place, Device>;

/// Throws Error naming the layer when it does not fit there.
std::unique_ptr<Op> make_op(const models::Layer& layer, const Place& input);

std::unique_ptr<Op> make_convolution(const models::Convolution& layer, const Place& input);
std::unique_ptr<Op> make_batch_norm(const models::BatchNorm& layer, const Place& input);
std::unique_ptr<Op> make_relu(const Place& input);
std::unique_ptr<Op> make_max_pool(const models::MaxPool& layer, const Place& input);
std::unique_ptr<Op> make_global_average_pool(const Place& input);
std::unique_ptr<Op> make_linear(const models::Linear& layer, const Place& input);
std::unique_ptr<Op> make_residual(const models::Residual& layer, const Place& input);
std::unique_ptr<Op> make_dropout(const models::Dropout& layer, const Place& input);
std::unique_ptr<Op> make_embedding(const models::Embedding& layer, const Place& input);
std::unique_ptr<Op> make_layer_norm(const models::LayerNorm& layer, const Place& input);
std::unique_ptr<Op> make_gelu(const Place& input);
std::unique_ptr<Op> make_attention(const models::CausalSelfAttention& layer, const Place& input);

/// Weights of a layer in the precision of the run; they live until the end of the call.
class LayerWeights {
 public:
  LayerWeights(Device& device, const float* weights, std::size_t n);
  const void* get() const { return converted_.empty() ? weights_ : converted_.data<void>(); }

 private:
  const void* weights_;
  Tensor converted_;  ///< empty where they can be read as they are
};

/// Owns a cuDNN descriptor.
template <class Handle, auto create, auto destroy>
class Descriptor {
 public:
  Descriptor() { check(create(&handle_), "cudnnCreate..Descriptor"); }
  ~Descriptor() {
    if (handle_ != nullptr) destroy(handle_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor =
    Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using PoolingDescriptor = Descriptor<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor,
                                     cudnnDestroyPoolingDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
               cudnnDestroyConvolutionDescriptor>;

cudnnDataType_t cudnn_type(Precision precision);
/// Makes it describe the tensors at a place, or one float32 a channel.
void describe(const TensorDescriptor& descriptor, const Place& place);
void describe_channels(const TensorDescriptor& descriptor, int channels);

/// cuDNN and cuBLAS take their factors by address.
inline constexpr float one = 1;
inline constexpr float zero = 0;

}  // namespace unlatch::exec::cuda
