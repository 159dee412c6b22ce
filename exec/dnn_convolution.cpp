// Convolution by oneDNN in the layouts it prefers; weights arrive flat as [out, in, kh, kw].
#include <utility>

#include "exec/dnn_op.h"

namespace unlatch::exec {
namespace {

using dnnl::memory;

struct Shapes {
  memory::desc input_any;
  memory::desc output_any;
  memory::desc weights_any;
  memory::desc weights_flat;
  memory::desc bias;  ///< empty without a bias
  memory::dims strides;
  memory::dims padding;
  models::SampleShape output;
};

Shapes shapes_of(const models::Convolution& layer, const Place& input) {
  const auto f32 = memory::data_type::f32;
  const auto any = memory::format_tag::any;
  const auto& in = input.shape;
  const auto output = models::output_shape({.name = "convolution", .kind = layer}, in);
  const memory::dims weights =
      dims4(layer.out_channels, in.channels, layer.kernel, layer.kernel);
  return {.input_any = {dims4(input.samples, in.channels, in.height, in.width), f32, any},
          .output_any = {dims4(input.samples, output.channels, output.height, output.width), f32,
                         any},
          .weights_any = {weights, f32, any},
          .weights_flat = {weights, f32, memory::format_tag::oihw},
          .bias = layer.bias
                      ? memory::desc({layer.out_channels}, f32, memory::format_tag::x)
                      : memory::desc(),
          .strides = {layer.stride, layer.stride},
          .padding = {layer.padding, layer.padding},
          .output = output};
}

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

Forward::primitive_desc describe_forward(const Shapes& s, const Place& input) {
  const auto kind = input.mode == Mode::training ? dnnl::prop_kind::forward_training
                                                 : dnnl::prop_kind::forward_inference;
  return {Forward::desc(kind, dnnl::algorithm::convolution_direct, s.input_any, s.weights_any,
                        s.bias, s.output_any, s.strides, s.padding, s.padding),
          user_scratchpad(), input.engine};
}

class Convolution : public Op {
 public:
  Convolution(const Shapes& s, const Forward::primitive_desc& forward, const Place& input)
      : Op({input.engine, input.mode, input.samples, s.output, forward.dst_desc()}),
        shapes_(s),
        forward_pd_(forward),
        forward_(forward),
        enter_(input.engine, input.layout, forward.src_desc()),
        leave_(input.engine, forward.src_desc(), input.layout),
        weights_in_(input.engine, s.weights_flat, forward.weights_desc()) {
    if (input.mode == Mode::training) make_backward(s, input);
  }

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const override {
    const Tensor source = enter_.moved(std::move(input.tensor), call);
    Tensor result = call.pool.take(forward_pd_.dst_desc().get_size());
    const std::size_t weight_bytes = forward_pd_.weights_desc().get_size();
    Pieces pieces(call.workspace, {weight_bytes, forward_pd_.scratchpad_desc().get_size(),
                                   weights_in_.scratch_bytes()});
    const void* weights = flat.weights;
    if (weights_in_.needed()) {
      std::byte* reordered = pieces.next(weight_bytes);
      weights_in_.run(call, flat.weights, reordered, pieces.next(weights_in_.scratch_bytes()));
      weights = reordered;
    }
    forward_.execute(
        call.stream,
        {{DNNL_ARG_SRC, memory_at(call, forward_pd_.src_desc(), source.data<float>())},
         {DNNL_ARG_WEIGHTS, memory_at(call, forward_pd_.weights_desc(), weights)},
         {DNNL_ARG_BIAS, memory_at(call, shapes_.bias, flat.weights + weight_count())},
         {DNNL_ARG_DST, memory_at(call, forward_pd_.dst_desc(), result.data<float>())},
         {DNNL_ARG_SCRATCHPAD,
          memory_at(call, forward_pd_.scratchpad_desc(),
                    pieces.next(forward_pd_.scratchpad_desc().get_size()))}});
    if (kept != nullptr) kept->tensors = {source};
    return {std::move(result), true};
  }

  Flow backward(const Flat& flat, const Kept& kept, Flow gradient, bool wants_input,
                Call& call) const override {
    add_weight_gradient(flat, kept.tensors[0], gradient.tensor, call);
    if (!wants_input) return {};
    return {input_gradient(flat, gradient.tensor, call), true};
  }

 private:
  void make_backward(const Shapes& s, const Place& input) {
    const memory::desc source = forward_pd_.src_desc();
    const memory::desc output = forward_pd_.dst_desc();
    const auto direct = dnnl::algorithm::convolution_direct;
    data_pd_ = BackwardData::primitive_desc(
        BackwardData::desc(direct, source, s.weights_any, output, s.strides, s.padding, s.padding),
        user_scratchpad(), input.engine, forward_pd_);
    weights_pd_ = BackwardWeights::primitive_desc(
        BackwardWeights::desc(direct, source, s.weights_any, s.bias, output, s.strides, s.padding,
                              s.padding),
        user_scratchpad(), input.engine, forward_pd_);
    data_ = BackwardData(data_pd_);
    weights_ = BackwardWeights(weights_pd_);
    weights_back_ = std::make_unique<Reorder>(input.engine, s.weights_flat, data_pd_.weights_desc());
    gradient_out_ = std::make_unique<Reorder>(input.engine, weights_pd_.diff_weights_desc(),
                                              s.weights_flat, true);
  }

  std::int64_t weight_count() const {
    return static_cast<std::int64_t>(shapes_.weights_flat.get_size() / sizeof(float));
  }

  void add_weight_gradient(const Flat& flat, const Tensor& source, const Tensor& gradient,
                           Call& call) const {
    const std::size_t weight_bytes = weights_pd_.diff_weights_desc().get_size();
    const std::size_t scratch_bytes = weights_pd_.scratchpad_desc().get_size();
    Pieces pieces(call.workspace, {weight_bytes, shapes_.bias.get_size(), scratch_bytes,
                                   gradient_out_->scratch_bytes()});
    std::byte* weights = pieces.next(weight_bytes);
    auto* bias = reinterpret_cast<float*>(pieces.next(shapes_.bias.get_size()));
    weights_.execute(
        call.stream,
        {{DNNL_ARG_SRC, memory_at(call, weights_pd_.src_desc(), source.data<float>())},
         {DNNL_ARG_DIFF_DST, memory_at(call, weights_pd_.diff_dst_desc(), gradient.data<float>())},
         {DNNL_ARG_DIFF_WEIGHTS, memory_at(call, weights_pd_.diff_weights_desc(), weights)},
         {DNNL_ARG_DIFF_BIAS, memory_at(call, shapes_.bias, bias)},
         {DNNL_ARG_SCRATCHPAD,
          memory_at(call, weights_pd_.scratchpad_desc(), pieces.next(scratch_bytes))}});
    gradient_out_->run(call, weights, flat.gradient, pieces.next(gradient_out_->scratch_bytes()));
    float* sums = flat.gradient + weight_count();
    const std::size_t channels = shapes_.bias.get_size() / sizeof(float);
    for (std::size_t c = 0; c < channels; ++c) sums[c] += bias[c];
  }

  Tensor input_gradient(const Flat& flat, const Tensor& gradient, Call& call) const {
    const std::size_t weight_bytes = data_pd_.weights_desc().get_size();
    const std::size_t scratch_bytes = data_pd_.scratchpad_desc().get_size();
    Tensor result = call.pool.take(data_pd_.diff_src_desc().get_size());
    Pieces pieces(call.workspace, {weight_bytes, scratch_bytes, weights_back_->scratch_bytes()});
    const void* weights = flat.weights;
    if (weights_back_->needed()) {
      std::byte* reordered = pieces.next(weight_bytes);
      weights_back_->run(call, flat.weights, reordered,
                         pieces.next(weights_back_->scratch_bytes()));
      weights = reordered;
    }
    data_.execute(
        call.stream,
        {{DNNL_ARG_DIFF_DST, memory_at(call, data_pd_.diff_dst_desc(), gradient.data<float>())},
         {DNNL_ARG_WEIGHTS, memory_at(call, data_pd_.weights_desc(), weights)},
         {DNNL_ARG_DIFF_SRC, memory_at(call, data_pd_.diff_src_desc(), result.data<float>())},
         {DNNL_ARG_SCRATCHPAD,
          memory_at(call, data_pd_.scratchpad_desc(), pieces.next(scratch_bytes))}});
    return leave_.moved(std::move(result), call);
  }

  Shapes shapes_;
  Forward::primitive_desc forward_pd_;
  Forward forward_;
  Reorder enter_;       ///< from the layout handed over to the one convolved
  Reorder leave_;       ///< and back, for the gradient
  Reorder weights_in_;  ///< flat to the layout of forward
  BackwardData::primitive_desc data_pd_;
  BackwardData data_;
  BackwardWeights::primitive_desc weights_pd_;
  BackwardWeights weights_;
  std::unique_ptr<Reorder> weights_back_;  ///< flat to the layout of backward data
  std::unique_ptr<Reorder> gradient_out_;  ///< adds a weight gradient to the flat one
};

}  // namespace

std::unique_ptr<Op> make_convolution(const models::Convolution& layer, const Place& input) {
  const Shapes shapes = shapes_of(layer, input);
  return std::make_unique<Convolution>(shapes, describe_forward(shapes, input), input);
}

}  // namespace unlatch::exec
