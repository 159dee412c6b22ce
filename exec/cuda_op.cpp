#include "exec/cuda_op.h"

#include "schedules/error.h"

namespace unlatch::exec::cuda {

std::unique_ptr<Op> make_op(const models::Layer& layer, const Place& input) {
  models::output_shape(layer, input.shape);  // refuses what does not fit, with the layer's name
  try {
    return make_layer(layer, input);
  } catch (const RunError& error) {
    fail("layer '{}': the GPU cannot run it on {} samples of {}x{}x{}: {}", layer.name,
         input.samples, input.shape.channels, input.shape.height, input.shape.width, error.what());
  }
}

LayerWeights::LayerWeights(Device& device, const float* weights, std::size_t n)
    : weights_(weights) {
  const Precision precision = device.settings().precision;
  if (is_float32(precision)) return;
  converted_ = device.take(n * bytes_of(precision));
  device.launch(launch_convert, precision, weights, device.write<void>(converted_), n);
}

cudnnDataType_t cudnn_type(Precision precision) {
  if (precision == Precision::bf16) return CUDNN_DATA_BFLOAT16;
  return precision == Precision::fp16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

void describe(const TensorDescriptor& descriptor, const Place& place) {
  const auto& [channels, height, width, is_sequence] = place.shape;
  check(
      cudnnSetTensor4dDescriptor(descriptor.get(), CUDNN_TENSOR_NCHW, cudnn_type(place.precision()),
                                 place.samples, channels, height, width),
      "cudnnSetTensor4dDescriptor");
}

void describe_channels(const TensorDescriptor& descriptor, int channels) {
  check(cudnnSetTensor4dDescriptor(descriptor.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1,
                                   channels, 1, 1),
        "cudnnSetTensor4dDescriptor");
}

}  // namespace unlatch::exec::cuda
