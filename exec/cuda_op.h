// Op: one layer as calls of cuDNN, cuBLAS or own kernels; the private seam of the cuda_*.cpp files.
#pragma once

#include <memory>

#include "exec/cuda_device.h"
#include "exec/layer_op.h"

namespace unlatch::exec::cuda {

/// Where a layer sits. Tensors are float32, densely [samples, channels, height, width].
struct Place {
  Device* device = nullptr;
  int samples = 1;
  models::SampleShape shape;

  std::size_t elements() const {
    return static_cast<std::size_t>(samples) * static_cast<std::size_t>(shape.elements());
  }
  std::size_t bytes() const { return elements() * sizeof(float); }
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

/// Makes it describe the tensors at a place, or one number a channel.
void describe(const TensorDescriptor& descriptor, const Place& place);
void describe_channels(const TensorDescriptor& descriptor, int channels);

/// cuDNN takes its factors by address.
inline constexpr float one = 1;
inline constexpr float zero = 0;

}  // namespace unlatch::exec::cuda
