// Convolution by oneDNN in blocked layouts; weights arrive flat as [out, in, kh, kw].
//
// Channel counts are rounded up to whole blocks: for others oneDNN 2.6 falls back to reference
// loops a hundred times slower. The memory of a blocked activation is the same either way, its
// extra channels being zeros; weights and bias are filled up with zeros in each call.
#include <algorithm>
#include <utility>

#include "exec/dnn_op.h"

namespace unlatch::exec {
namespace {

using dnnl::memory;

constexpr int image_channels = 3;

struct Shapes {
  int out = 1;  ///< channels as the model has them
  int in = 1;
  int padded_out = 1;  ///< and as the primitives see them
  int padded_in = 1;
  int kernel = 1;
  bool has_bias = true;
  memory::desc input;
  memory::desc output;
  memory::desc weights_any;
  memory::desc weights_plain;  ///< [padded out, padded in, kernel, kernel]
  memory::desc bias;           ///< empty without a bias
  memory::dims strides;
  memory::dims padding;
  Place entry;   ///< the input in the layout convolved
  Place result;  ///< the output in its layout

  bool padded() const { return out != padded_out || in != padded_in; }
  /// The input must be copied to get its extra channels (a blocked one has them already).
  bool widened() const { return in < image_channels; }
  std::ptrdiff_t weights() const { return std::ptrdiff_t{out} * in * kernel * kernel; }
};

int rounded_up(int channels, int block) { return (channels + block - 1) / block * block; }

Shapes shapes_of(const models::Convolution& layer, const Place& input) {
  const auto f32 = memory::data_type::f32;
  const int block = preferred_channel_block();
  // Images of 3 channels have kernels of their own that read the plain layout. One or two channels
  // are filled up to three, since backward has no such kernel for them.
  const bool image = input.shape.channels <= image_channels;
  Shapes s{.out = layer.out_channels,
           .in = input.shape.channels,
           .padded_out = rounded_up(layer.out_channels, block),
           .padded_in = image ? image_channels : rounded_up(input.shape.channels, block),
           .kernel = layer.kernel,
           .has_bias = layer.bias,
           .input = {},
           .output = {},
           .weights_any = {},
           .weights_plain = {},
           .bias = {},
           .strides = {layer.stride, layer.stride},
           .padding = {layer.padding, layer.padding},
           .entry = input,
           .result = input};
  s.entry.layout = layout_of(s.entry, image ? 1 : block);
  s.result.shape = models::output_shape({.name = "convolution", .kind = layer}, input.shape);
  s.result.layout = layout_of(s.result, block);
  Place padded = s.entry;
  padded.shape.channels = s.padded_in;
  s.input = layout_of(padded, image ? 1 : block);
  padded = s.result;
  padded.shape.channels = s.padded_out;
  s.output = layout_of(padded, block);
  const memory::dims weights = dims4(s.padded_out, s.padded_in, s.kernel, s.kernel);
  s.weights_any = {weights, f32, memory::format_tag::any};
  s.weights_plain = {weights, f32, memory::format_tag::oihw};
  if (layer.bias) s.bias = {{s.padded_out}, f32, memory::format_tag::x};
  return s;
}

/// Flat weights into [padded out, padded in, k, k], the rest zero.
void fill_up(const Shapes& s, const float* flat, float* plain) {
  const std::ptrdiff_t row = std::ptrdiff_t{s.in} * s.kernel * s.kernel;
  const std::ptrdiff_t padded_row = std::ptrdiff_t{s.padded_in} * s.kernel * s.kernel;
  std::fill_n(plain, padded_row * s.padded_out, 0.0F);
  for (int o = 0; o < s.out; ++o) std::copy_n(flat + o * row, row, plain + o * padded_row);
}

/// Adds the part of a padded weight gradient that is real.
void add_real(const Shapes& s, const float* plain, float* flat) {
  const std::ptrdiff_t row = std::ptrdiff_t{s.in} * s.kernel * s.kernel;
  const std::ptrdiff_t padded_row = std::ptrdiff_t{s.padded_in} * s.kernel * s.kernel;
  for (int o = 0; o < s.out; ++o) {
    for (std::ptrdiff_t i = 0; i < row; ++i) flat[o * row + i] += plain[o * padded_row + i];
  }
}

/// Plain images between their own channels and those the primitives see, the extra ones zero.
Tensor widened(const Shapes& s, const Tensor& images, Call& call) {
  const std::ptrdiff_t pixels = std::ptrdiff_t{s.entry.shape.height} * s.entry.shape.width;
  Tensor result = call.pool.take(s.input.get_size());
  const float* from = images.data<float>();
  float* to = result.data<float>();
  for (int n = 0; n < s.entry.samples; ++n) {
    to = std::copy_n(from + n * s.in * pixels, s.in * pixels, to);
    to = std::fill_n(to, (s.padded_in - s.in) * pixels, 0.0F);
  }
  return result;
}

Tensor narrowed(const Shapes& s, const Tensor& images, Call& call) {
  const std::ptrdiff_t pixels = std::ptrdiff_t{s.entry.shape.height} * s.entry.shape.width;
  Tensor result = call.pool.take(s.entry.layout.get_size());
  const float* from = images.data<float>();
  float* to = result.data<float>();
  for (int n = 0; n < s.entry.samples; ++n) {
    to = std::copy_n(from + n * s.padded_in * pixels, s.in * pixels, to);
  }
  return result;
}

/// Brings flat weights into the layout of one primitive.
class WeightsIn {
 public:
  WeightsIn(const Shapes& s, const dnnl::engine& engine, const memory::desc& wanted)
      : reorder_(engine, s.weights_plain, wanted),
        plain_bytes_(s.padded() ? s.weights_plain.get_size() : 0),
        wanted_bytes_(wanted.get_size()) {}

  /// Workspace for one run.
  std::size_t bytes() const {
    return plain_bytes_ + wanted_bytes_ + reorder_.scratch_bytes() + 3 * 64;
  }
  const float* run(const Shapes& s, const float* flat, Call& call, std::byte* memory) const {
    Pieces pieces(memory);
    const float* from = flat;
    if (plain_bytes_ != 0) {
      auto* plain = reinterpret_cast<float*>(pieces.next(plain_bytes_));
      fill_up(s, flat, plain);
      from = plain;
    }
    if (!reorder_.needed()) return from;
    std::byte* wanted = pieces.next(wanted_bytes_);
    reorder_.run(call, from, wanted, pieces.next(reorder_.scratch_bytes()));
    return reinterpret_cast<const float*>(wanted);
  }

 private:
  Reorder reorder_;
  std::size_t plain_bytes_;
  std::size_t wanted_bytes_;
};

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

Forward::primitive_desc describe_forward(const Shapes& s, const Place& input) {
  const auto kind = input.mode == Mode::training ? dnnl::prop_kind::forward_training
                                                 : dnnl::prop_kind::forward_inference;
  return {Forward::desc(kind, dnnl::algorithm::convolution_direct, s.input, s.weights_any, s.bias,
                        s.output, s.strides, s.padding, s.padding),
          user_scratchpad(), input.engine};
}

/// The backward half of a convolution.
struct Back {
  BackwardData::primitive_desc data_pd;
  BackwardWeights::primitive_desc weights_pd;
  BackwardData data;
  BackwardWeights weights;
  WeightsIn weights_in;
  Reorder gradient_out;  ///< adds a weight gradient to the flat one, or to a cleared padded one

  Back(const Shapes& s, const Forward::primitive_desc& forward, const dnnl::engine& engine)
      : data_pd(BackwardData::desc(dnnl::algorithm::convolution_direct, s.input, s.weights_any,
                                   s.output, s.strides, s.padding, s.padding),
                user_scratchpad(), engine, forward),
        weights_pd(BackwardWeights::desc(dnnl::algorithm::convolution_direct, s.input,
                                         s.weights_any, s.bias, s.output, s.strides, s.padding,
                                         s.padding),
                   user_scratchpad(), engine, forward),
        data(data_pd),
        weights(weights_pd),
        weights_in(s, engine, data_pd.weights_desc()),
        gradient_out(engine, weights_pd.diff_weights_desc(), s.weights_plain, !s.padded()) {}
};

class Convolution : public Op {
 public:
  Convolution(const Shapes& s, const Forward::primitive_desc& forward, const Place& input)
      : Op(s.result),
        shapes_(s),
        forward_pd_(forward),
        forward_(forward),
        enter_(input.engine, input.layout, s.entry.layout),
        leave_(input.engine, s.entry.layout, input.layout),
        weights_in_(s, input.engine, forward.weights_desc()) {
    if (input.mode == Mode::training) back_ = std::make_unique<Back>(s, forward, input.engine);
  }

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const override {
    Tensor source = enter_.moved(std::move(input.tensor), call);
    if (shapes_.widened()) source = widened(shapes_, source, call);
    Tensor result = call.pool.take(shapes_.output.get_size());
    const memory::desc scratch = forward_pd_.scratchpad_desc();
    Pieces pieces(call.workspace,
                  {weights_in_.bytes(), shapes_.bias.get_size(), scratch.get_size()});
    const float* weights =
        weights_in_.run(shapes_, flat.weights, call, pieces.next(weights_in_.bytes()));
    const float* bias = padded_bias(flat.weights + shapes_.weights(),
                                    pieces.next(shapes_.bias.get_size()));
    forward_.execute(
        call.stream,
        {{DNNL_ARG_SRC, memory_at(call, shapes_.input, source.data<float>())},
         {DNNL_ARG_WEIGHTS, memory_at(call, forward_pd_.weights_desc(), weights)},
         {DNNL_ARG_BIAS, memory_at(call, shapes_.bias, bias)},
         {DNNL_ARG_DST, memory_at(call, shapes_.output, result.data<float>())},
         {DNNL_ARG_SCRATCHPAD, memory_at(call, scratch, pieces.next(scratch.get_size()))}});
    if (kept != nullptr) kept->tensors = {source};
    return {std::move(result), true};
  }

  Flow backward(const Flat& flat, const Kept& kept, Flow gradient, bool wants_input,
                Call& call) const override {
    add_weight_gradient(flat, kept.tensors[0], gradient.tensor, call);
    if (!wants_input) return {};
    Tensor result = input_gradient(flat, gradient.tensor, call);
    if (shapes_.widened()) result = narrowed(shapes_, result, call);
    return {leave_.moved(std::move(result), call), true};
  }

 private:
  const float* padded_bias(const float* flat, std::byte* memory) const {
    if (!shapes_.has_bias || shapes_.out == shapes_.padded_out) return flat;
    auto* bias = reinterpret_cast<float*>(memory);
    std::fill_n(std::copy_n(flat, shapes_.out, bias), shapes_.padded_out - shapes_.out, 0.0F);
    return bias;
  }

  void add_weight_gradient(const Flat& flat, const Tensor& source, const Tensor& gradient,
                           Call& call) const {
    const memory::desc weights_desc = back_->weights_pd.diff_weights_desc();
    const memory::desc scratch = back_->weights_pd.scratchpad_desc();
    const std::size_t plain_bytes = shapes_.padded() ? shapes_.weights_plain.get_size() : 0;
    Pieces pieces(call.workspace,
                  {weights_desc.get_size(), shapes_.bias.get_size(), scratch.get_size(),
                   plain_bytes, back_->gradient_out.scratch_bytes()});
    std::byte* weights = pieces.next(weights_desc.get_size());
    auto* bias = reinterpret_cast<float*>(pieces.next(shapes_.bias.get_size()));
    back_->weights.execute(
        call.stream,
        {{DNNL_ARG_SRC, memory_at(call, shapes_.input, source.data<float>())},
         {DNNL_ARG_DIFF_DST, memory_at(call, shapes_.output, gradient.data<float>())},
         {DNNL_ARG_DIFF_WEIGHTS, memory_at(call, weights_desc, weights)},
         {DNNL_ARG_DIFF_BIAS, memory_at(call, shapes_.bias, bias)},
         {DNNL_ARG_SCRATCHPAD, memory_at(call, scratch, pieces.next(scratch.get_size()))}});
    auto* plain = reinterpret_cast<float*>(pieces.next(plain_bytes));
    add_to_flat(weights, plain, flat.gradient, pieces, call);
    if (!shapes_.has_bias) return;
    float* sums = flat.gradient + shapes_.weights();
    for (int c = 0; c < shapes_.out; ++c) sums[c] += bias[c];
  }

  void add_to_flat(const std::byte* weights, float* plain, float* flat, Pieces& pieces,
                   Call& call) const {
    std::byte* scratch = pieces.next(back_->gradient_out.scratch_bytes());
    if (!shapes_.padded()) {
      back_->gradient_out.run(call, weights, flat, scratch);
    } else if (back_->gradient_out.needed()) {
      back_->gradient_out.run(call, weights, plain, scratch);
      add_real(shapes_, plain, flat);
    } else {
      add_real(shapes_, reinterpret_cast<const float*>(weights), flat);
    }
  }

  Tensor input_gradient(const Flat& flat, const Tensor& gradient, Call& call) const {
    const memory::desc scratch = back_->data_pd.scratchpad_desc();
    Tensor result = call.pool.take(shapes_.input.get_size());
    Pieces pieces(call.workspace, {back_->weights_in.bytes(), scratch.get_size()});
    const float* weights =
        back_->weights_in.run(shapes_, flat.weights, call, pieces.next(back_->weights_in.bytes()));
    back_->data.execute(
        call.stream,
        {{DNNL_ARG_DIFF_DST, memory_at(call, shapes_.output, gradient.data<float>())},
         {DNNL_ARG_WEIGHTS, memory_at(call, back_->data_pd.weights_desc(), weights)},
         {DNNL_ARG_DIFF_SRC, memory_at(call, shapes_.input, result.data<float>())},
         {DNNL_ARG_SCRATCHPAD, memory_at(call, scratch, pieces.next(scratch.get_size()))}});
    return result;
  }

  Shapes shapes_;
  Forward::primitive_desc forward_pd_;
  Forward forward_;
  Reorder enter_;  ///< from the layout handed over to the one convolved
  Reorder leave_;  ///< and back, for the gradient
  WeightsIn weights_in_;
  std::unique_ptr<Back> back_;  ///< only in training
};

}  // namespace

std::unique_ptr<Op> make_convolution(const models::Convolution& layer, const Place& input) {
  const Shapes shapes = shapes_of(layer, input);
  return std::make_unique<Convolution>(shapes, describe_forward(shapes, input), input);
}

}  // namespace unlatch::exec
