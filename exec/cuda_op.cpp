#include "exec/cuda_op.h"

#include <utility>

#include "schedules/error.h"

namespace unlatch::exec::cuda {
namespace {

struct Make {
  const Place& input;
  std::unique_ptr<Op> operator()(const models::Convolution& l) {
    return make_convolution(l, input);
  }
  std::unique_ptr<Op> operator()(const models::BatchNorm& l) { return make_batch_norm(l, input); }
  std::unique_ptr<Op> operator()(const models::Relu&) { return make_relu(input); }
  std::unique_ptr<Op> operator()(const models::MaxPool& l) { return make_max_pool(l, input); }
  std::unique_ptr<Op> operator()(const models::GlobalAveragePool&) {
    return make_global_average_pool(input);
  }
  std::unique_ptr<Op> operator()(const models::Linear& l) { return make_linear(l, input); }
  std::unique_ptr<Op> operator()(const models::Residual& l) { return make_residual(l, input); }
};

}  // namespace

Flow Op::backward(const Flat& flat, const Kept& kept, Flow gradient, bool wants_input,
                  Device& device) const {
  Kept part = kept;  // shares the tensors
  Flow input = backward_input(flat, part, std::move(gradient), wants_input, device);
  backward_weight(flat, part, device);
  return input;
}

std::unique_ptr<Op> make_op(const models::Layer& layer, const Place& input) {
  models::output_shape(layer, input.shape);  // refuses what does not fit, with the layer's name
  try {
    return std::visit(Make{input}, layer.kind);
  } catch (const RunError& error) {
    fail("layer '{}': the GPU cannot run it on {} samples of {}x{}x{}: {}", layer.name,
         input.samples, input.shape.channels, input.shape.height, input.shape.width, error.what());
  }
}

void describe(const TensorDescriptor& descriptor, const Place& place) {
  const auto& [channels, height, width] = place.shape;
  check(cudnnSetTensor4dDescriptor(descriptor.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
                                   place.samples, channels, height, width),
        "cudnnSetTensor4dDescriptor");
}

void describe_channels(const TensorDescriptor& descriptor, int channels) {
  check(cudnnSetTensor4dDescriptor(descriptor.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1,
                                   channels, 1, 1),
        "cudnnSetTensor4dDescriptor");
}

}  // namespace unlatch::exec::cuda
