// Dropout by hand, in whatever layout comes: a number is drawn by its place in [channels, height,
// width], so that blocks of channels change no bit.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "exec/dnn_op.h"

namespace unlatch::exec {
namespace {

class Dropout : public Op {
 public:
  Dropout(const models::Dropout& layer, const Place& input)
      : Op(input), layer_(layer), block_(channel_block(input)) {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const override {
    if (output().mode == Mode::inference) return input;
    const Tensor mask = call.pool.take(output().bytes() / sizeof(float));
    fill(models::mask_of(layer_.probability, layer_.number, flat.draw), mask.data<std::uint8_t>());
    Flow result = masked(std::move(input), mask, call);
    if (kept != nullptr) kept->tensors = {mask};
    return result;
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    const Kept done = std::exchange(kept, {});
    return wants_input ? masked(std::move(gradient), done.tensors[0], call) : Flow{};
  }

 private:
  /// A byte a number, 1 where it is kept; 0 for channels that only fill a block up.
  void fill(const models::DropoutMask& mask, std::uint8_t* bytes) const {
    const int channels = output().shape.channels;
    const std::int64_t plane = output().shape.elements() / channels;
    for (int n = 0; n < output().samples; ++n) {
      for (int first = 0; first < channels; first += block_) {
        for (std::int64_t pixel = 0; pixel < plane; ++pixel) {
          for (int c = first; c < first + block_; ++c) {
            *bytes++ = c < channels && mask.keeps(n, c * plane + pixel) ? 1 : 0;
          }
        }
      }
    }
  }

  Flow masked(Flow flow, const Tensor& mask, Call& call) const {
    const std::size_t bytes = output().bytes();
    const Tensor result = flow.ours ? flow.tensor : call.pool.take(bytes);
    const auto factor = models::kept_factor(layer_.probability);
    std::transform(flow.tensor.data<float>(), flow.tensor.data<float>() + bytes / sizeof(float),
                   mask.data<std::uint8_t>(), result.data<float>(),
                   [factor](float x, std::uint8_t kept) { return kept ? factor * x : 0.0F; });
    return {result, true};
  }

  models::Dropout layer_;
  int block_;
};

}  // namespace

std::unique_ptr<Op> make_dropout(const models::Dropout& layer, const Place& input) {
  return std::make_unique<Dropout>(layer, input);
}

}  // namespace unlatch::exec
