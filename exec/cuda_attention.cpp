// Causal self-attention: cuBLAS's products, those of one head of all samples at a time, and a
// softmax by own kernels. Tensors lie as in dnn_attention.cpp.
#include <cmath>
#include <utility>

#include "exec/cuda_product.h"
#include "exec/cuda_sequence_kernels.h"

namespace unlatch::exec::cuda {
namespace {

class Attention : public Op {
 public:
  Attention(const models::CausalSelfAttention& layer, const Place& input, const Place& output)
      : Op(output),
        heads_(layer.heads),
        tokens_(input.shape.rows()),
        width_(output.shape.width),
        size_(width_ / heads_),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(size_)))),
        in_{3 * width_, std::int64_t{3} * width_ * tokens_},
        out_{width_, std::int64_t{width_} * tokens_},
        pairs_{tokens_, std::int64_t{heads_} * tokens_ * tokens_},
        rows_{output.samples * heads_ * tokens_, tokens_} {}

  Flow forward(const Flat&, Flow input, Kept* kept, Device& device) const override {
    const Tensor result = device.take(output().bytes());
    const Tensor softmax = device.take(pair_bytes());
    const Tensor of_rows = device.take(2 * row_bytes());
    const void* x = device.read<void>(input.tensor);
    void* p = device.write<void>(softmax);
    for (int h = 0; h < heads_; ++h) {
      multiply_batch(device, of_pairs(scale_, in_, in_), queries(x, h), keys(x, h), pairs(p, h));
    }
    device.launch(launch_causal_softmax, output().precision(), p, device.write(of_rows), rows_);
    void* y = device.write<void>(result);
    for (int h = 0; h < heads_; ++h) {
      multiply_batch(device, of_values(false, 1, in_, out_), pairs(p, h), values(x, h),
                     at(y, h * size_));
    }
    if (kept != nullptr) kept->tensors = {std::move(input.tensor), softmax};
    return {result, true};
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    const Kept done = std::exchange(kept, {});
    if (!wants_input) return {};
    const Tensor result = device.take(done.tensors[0].bytes());
    const Tensor scores = device.take(pair_bytes());
    const Tensor of_rows = device.take(row_bytes());
    const void* x = device.read<void>(done.tensors[0]);
    const void* p = device.read<void>(done.tensors[1]);
    const void* g = device.read<void>(gradient.tensor);
    void* dx = device.write<void>(result);
    void* ds = device.write<void>(scores);
    for (int h = 0; h < heads_; ++h) {
      multiply_batch(device, of_values(true, 1, out_, in_), pairs(p, h), at(g, h * size_),
                     values(dx, h));
      multiply_batch(device, of_pairs(1, out_, in_), at(g, h * size_), values(x, h), pairs(ds, h));
    }
    device.launch(launch_causal_softmax_gradient, output().precision(), p, ds,
                  device.write(of_rows), rows_);
    for (int h = 0; h < heads_; ++h) {
      multiply_batch(device, of_values(false, scale_, in_, in_), pairs(ds, h), keys(x, h),
                     queries(dx, h));
      multiply_batch(device, of_values(true, scale_, in_, in_), pairs(ds, h), queries(x, h),
                     keys(dx, h));
    }
    return {result, true};
  }

 private:
  std::size_t pair_bytes() const {
    return static_cast<std::size_t>(rows_.rows) * static_cast<std::size_t>(tokens_) *
           bytes_of(output().precision());
  }
  std::size_t row_bytes() const { return static_cast<std::size_t>(rows_.rows) * sizeof(float); }

  /// Where number `first` of a tensor lies.
  template <class Void>
  Void* at(Void* tensor, std::int64_t first) const {
    using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
    return static_cast<Byte*>(tensor) +
           first * static_cast<std::int64_t>(bytes_of(output().precision()));
  }
  template <class Void>
  Void* queries(Void* x, int head) const {
    return at(x, head * size_);
  }
  template <class Void>
  Void* keys(Void* x, int head) const {
    return at(x, width_ + head * size_);
  }
  template <class Void>
  Void* values(Void* x, int head) const {
    return at(x, 2 * width_ + head * size_);
  }
  template <class Void>
  Void* pairs(Void* scores, int head) const {
    return at(scores, std::int64_t{head} * tokens_ * tokens_);
  }

  /// [tokens, size of a head] by the same of the other factor, transposed, to pairs of tokens.
  BatchedProduct of_pairs(float alpha, const BatchedMatrix& a, const BatchedMatrix& b) const {
    return {{.a_transposed = false, .b_transposed = true, .m = tokens_, .n = tokens_, .k = size_},
            alpha,
            a,
            b,
            pairs_,
            output().samples};
  }
  /// Pairs of tokens by [tokens, size of a head].
  BatchedProduct of_values(bool transposed, float alpha, const BatchedMatrix& b,
                           const BatchedMatrix& c) const {
    return {
        {.a_transposed = transposed, .b_transposed = false, .m = tokens_, .n = size_, .k = tokens_},
        alpha,
        pairs_,
        b,
        c,
        output().samples};
  }

  int heads_;
  int tokens_;
  int width_;
  int size_;  ///< features of a head
  float scale_;
  BatchedMatrix in_, out_, pairs_;
  RowShape rows_;  ///< of scores
};

}  // namespace

std::unique_ptr<Op> make_attention(const models::CausalSelfAttention& layer, const Place& input) {
  Place output = input;
  output.shape = models::output_shape({.name = "attention", .kind = layer}, input.shape);
  return std::make_unique<Attention>(layer, input, output);
}

}  // namespace unlatch::exec::cuda
