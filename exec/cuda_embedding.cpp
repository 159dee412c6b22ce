// Rows of two tables by own kernels; weights as in dnn_embedding.cpp. In bf16 the numbers of tokens
// are whole up to 256, in fp16 up to 2048.
#include <utility>

#include "exec/cuda_op.h"
#include "exec/cuda_sequence_kernels.h"

namespace unlatch::exec::cuda {
namespace {

class Embedding : public Op {
 public:
  Embedding(const models::Embedding& layer, const Place& input, const Place& output)
      : Op(output),
        input_bytes_(input.bytes()),
        shape_{input.rows(), input.shape.rows(), layer.vocabulary, layer.width} {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Device& device) const override {
    const Tensor result = device.take(output().bytes());
    device.launch(launch_embedding, output().precision(), device.read<void>(input.tensor),
                  flat.weights, device.write<void>(result), shape_);
    if (kept != nullptr) kept->tensors = {std::move(input.tensor)};
    return {result, true};
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    kept.tensors.push_back(std::move(gradient.tensor));
    if (!wants_input) return {};
    const Tensor none = device.take(input_bytes_);
    device.call("cudaMemsetAsync", cudaMemsetAsync, device.write<void>(none), 0, input_bytes_,
                device.stream());
    return {none, true};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Device& device) const override {
    device.launch(launch_embedding_gradient, output().precision(),
                  device.read<void>(kept.tensors[0]), device.read<void>(kept.tensors[1]),
                  flat.gradient, shape_);
  }

 private:
  std::size_t input_bytes_;
  EmbeddingShape shape_;
};

}  // namespace

std::unique_ptr<Op> make_embedding(const models::Embedding& layer, const Place& input) {
  Place output = input;
  output.shape = models::output_shape({.name = "embedding", .kind = layer}, input.shape);
  return std::make_unique<Embedding>(layer, input, output);
}

}  // namespace unlatch::exec::cuda
