// Pooling: the maximum by oneDNN, the global average by hand (oneDNN's forward is slow on AVX2).
#include <algorithm>
#include <utility>

#include "exec/dnn_op.h"

namespace unlatch::exec {
namespace {

using dnnl::memory;
using Forward = dnnl::pooling_forward;
using Backward = dnnl::pooling_backward;

struct Window {
  memory::dims kernel;
  memory::dims stride;
  memory::dims padding;
  memory::desc output_any;
  models::SampleShape output;
};

Window window_of(const models::MaxPool& layer, const Place& input) {
  const auto output = models::output_shape({.name = "max pool", .kind = layer}, input.shape);
  return {.kernel = {layer.kernel, layer.kernel},
          .stride = {layer.stride, layer.stride},
          .padding = {0, 0},
          .output_any = {dims4(input.samples, output.channels, output.height, output.width),
                         memory::data_type::f32, memory::format_tag::any},
          .output = output};
}

Forward::primitive_desc describe_forward(const Window& w, const Place& input) {
  const auto kind = input.mode == Mode::training ? dnnl::prop_kind::forward_training
                                                 : dnnl::prop_kind::forward_inference;
  return {Forward::desc(kind, dnnl::algorithm::pooling_max, input.layout, w.output_any, w.stride,
                        w.kernel, w.padding, w.padding),
          user_scratchpad(), input.engine};
}

class MaxPool : public Op {
 public:
  MaxPool(const Window& w, const Forward::primitive_desc& forward, const Place& input)
      : Op({input.engine, input.mode, input.samples, w.output, forward.dst_desc()}),
        input_(input.layout),
        forward_pd_(forward),
        forward_(forward) {
    if (input.mode == Mode::inference) return;
    backward_pd_ = Backward::primitive_desc(
        Backward::desc(dnnl::algorithm::pooling_max, input_, output().layout, w.stride, w.kernel,
                       w.padding, w.padding),
        user_scratchpad(), input.engine, forward_pd_);
    backward_ = Backward(backward_pd_);
  }

  Flow forward(const Flat&, Flow input, Kept* kept, Call& call) const override {
    Tensor result = call.pool.take(output().layout.get_size());
    const memory::desc places = forward_pd_.workspace_desc();  // of the maxima
    const Tensor where = call.pool.take(places.get_size());
    const memory::desc scratch = forward_pd_.scratchpad_desc();
    forward_.execute(
        call.stream,
        {{DNNL_ARG_SRC, memory_at(call, input_, input.tensor.data<float>())},
         {DNNL_ARG_DST, memory_at(call, output().layout, result.data<float>())},
         {DNNL_ARG_WORKSPACE, memory_at(call, places, where.data<std::byte>())},
         {DNNL_ARG_SCRATCHPAD,
          memory_at(call, scratch, call.workspace.at_least(scratch.get_size()))}});
    if (kept != nullptr) kept->tensors = {where};
    return {std::move(result), true};
  }

  Flow backward(const Flat&, const Kept& kept, Flow gradient, bool wants_input,
                Call& call) const override {
    if (!wants_input) return {};
    Tensor result = call.pool.take(input_.get_size());
    const memory::desc scratch = backward_pd_.scratchpad_desc();
    backward_.execute(
        call.stream,
        {{DNNL_ARG_DIFF_DST, memory_at(call, output().layout, gradient.tensor.data<float>())},
         {DNNL_ARG_WORKSPACE, memory_at(call, backward_pd_.workspace_desc(),
                                        kept.tensors[0].data<std::byte>())},
         {DNNL_ARG_DIFF_SRC, memory_at(call, input_, result.data<float>())},
         {DNNL_ARG_SCRATCHPAD,
          memory_at(call, scratch, call.workspace.at_least(scratch.get_size()))}});
    return {std::move(result), true};
  }

 private:
  memory::desc input_;
  Forward::primitive_desc forward_pd_;
  Forward forward_;
  Backward::primitive_desc backward_pd_;
  Backward backward_;
};

/// Channels side by side in memory: 8 or 16 in a blocked layout, 1 in a plain one, 0 in any other.
int channel_block(const Place& place) {
  using tag = memory::format_tag;
  const auto& [c, h, w] = place.shape;
  const auto is = [&](tag t) {
    return place.layout == memory::desc(dims4(place.samples, c, h, w), memory::data_type::f32, t);
  };
  if (is(tag::nchw)) return 1;
  if (is(tag::nChw8c)) return 8;
  return is(tag::nChw16c) ? 16 : 0;
}

/// The sum over the pixels of one group of `block` channels.
void add_pixels(const float* x, int pixels, int block, float* sums) {
  std::fill_n(sums, block, 0.0F);
  if (block == 8) {  // a constant count lets the compiler keep the sums in registers
    for (int p = 0; p < pixels; ++p) {
      for (int c = 0; c < 8; ++c) sums[c] += x[8 * p + c];
    }
    return;
  }
  for (int p = 0; p < pixels; ++p) {
    for (int c = 0; c < block; ++c) sums[c] += x[block * p + c];
  }
}

class GlobalAveragePool : public Op {
 public:
  explicit GlobalAveragePool(const Place& input)
      : Op(averaged(input)),
        input_(input),
        block_(std::max(1, channel_block(input))),
        pixels_(input.shape.height * input.shape.width),
        groups_((input.shape.channels + block_ - 1) / block_),
        enter_(input.engine, input.layout, summed(input)),
        leave_(input.engine, summed(input), input.layout) {}

  Flow forward(const Flat&, Flow input, Kept*, Call& call) const override {
    const Tensor source = enter_.moved(std::move(input.tensor), call);
    Tensor result = call.pool.take(output().layout.get_size());
    const float* x = source.data<float>();
    const float share = 1.0F / static_cast<float>(pixels_);
    for_each_group([&](std::ptrdiff_t offset, std::ptrdiff_t first, int channels) {
      float sums[16];
      add_pixels(x + offset, pixels_, block_, sums);
      float* y = result.data<float>() + first;
      for (int c = 0; c < channels; ++c) y[c] = sums[c] * share;
    });
    return {std::move(result), true};
  }

  Flow backward(const Flat&, const Kept&, Flow gradient, bool wants_input,
                Call& call) const override {
    if (!wants_input) return {};
    Tensor result = call.pool.take(static_cast<std::size_t>(input_.samples) * groups_ * block_ *
                                   pixels_ * sizeof(float));
    float* out = result.data<float>();
    const float* g = gradient.tensor.data<float>();
    const float share = 1.0F / static_cast<float>(pixels_);
    for_each_group([&](std::ptrdiff_t offset, std::ptrdiff_t first, int channels) {
      float values[16] = {};
      for (int c = 0; c < channels; ++c) values[c] = g[first + c] * share;
      for (int p = 0; p < pixels_; ++p) std::copy_n(values, block_, out + offset + block_ * p);
    });
    return {leave_.moved(std::move(result), call), true};
  }

 private:
  static Place averaged(Place place) {
    place.shape = {place.shape.channels, 1, 1};
    place.layout = plain_layout(place.samples, place.shape);
    return place;
  }

  /// The layout the sums run over: the given one if it is plain or blocked, else plain.
  static memory::desc summed(const Place& input) {
    return channel_block(input) > 0 ? input.layout : plain_layout(input.samples, input.shape);
  }

  /// Calls f(offset of the group's pixels, index of its first average, its real channels).
  template <class F>
  void for_each_group(F f) const {
    const std::ptrdiff_t channels = input_.shape.channels;
    for (std::ptrdiff_t n = 0; n < input_.samples; ++n) {
      for (std::ptrdiff_t b = 0; b < groups_; ++b) {
        const auto real = std::min<std::ptrdiff_t>(block_, channels - b * block_);
        f((n * groups_ + b) * block_ * pixels_, n * channels + b * block_, static_cast<int>(real));
      }
    }
  }

  Place input_;
  int block_;
  int pixels_;
  int groups_;
  Reorder enter_;
  Reorder leave_;
};

}  // namespace

std::unique_ptr<Op> make_max_pool(const models::MaxPool& layer, const Place& input) {
  const Window window = window_of(layer, input);
  return std::make_unique<MaxPool>(window, describe_forward(window, input), input);
}

std::unique_ptr<Op> make_global_average_pool(const Place& input) {
  return std::make_unique<GlobalAveragePool>(input);
}

}  // namespace unlatch::exec
