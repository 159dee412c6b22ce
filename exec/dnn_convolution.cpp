// Convolution by oneDNN in blocked layouts; weights arrive flat as [out, in, kh, kw].
//
// Channel counts are rounded up to whole blocks: for others oneDNN 2.6 falls back to reference
// loops a hundred times slower. The memory of a blocked activation is the same either way, its
// extra channels being zeros; weights and bias are filled up with zeros in each call.
#include <algorithm>
#include <utility>

#include "exec/dnn_convolution_shapes.h"

namespace unlatch::exec {
namespace {

using dnnl::memory;

using Shapes = ConvolutionShapes;

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
  Shapes shapes;
  BackwardData::primitive_desc data_pd;
  BackwardWeights::primitive_desc weights_pd;
  BackwardData data;
  BackwardWeights weights;
  WeightsIn weights_in;
  Reorder gradient_out;  ///< adds a weight gradient to the flat one, or copies it to a padded one

  Back(const Shapes& s, const Forward::primitive_desc& forward, const dnnl::engine& engine)
      : shapes(s),
        data_pd(BackwardData::desc(dnnl::algorithm::convolution_direct, s.input, s.weights_any,
                                   s.output, s.strides, s.padding, s.padding),
                user_scratchpad(), engine, forward),
        weights_pd(
            BackwardWeights::desc(dnnl::algorithm::convolution_direct, s.input, s.weights_any,
                                  s.bias, s.output, s.strides, s.padding, s.padding),
            user_scratchpad(), engine, forward),
        data(data_pd),
        weights(weights_pd),
        weights_in(s, engine, data_pd.weights_desc()),
        gradient_out(engine, weights_pd.diff_weights_desc(), s.weights_plain, !s.padded()) {}

  void add_weight_gradient(const Flat& flat, const Tensor& source, const Tensor& gradient,
                           Call& call) const {
    const memory::desc weights_desc = weights_pd.diff_weights_desc();
    const memory::desc scratch = weights_pd.scratchpad_desc();
    const std::size_t plain_bytes = shapes.padded() ? shapes.weights_plain.get_size() : 0;
    Pieces pieces(call.workspace, {weights_desc.get_size(), shapes.bias.get_size(),
                                   scratch.get_size(), plain_bytes, gradient_out.scratch_bytes()});
    std::byte* packed = pieces.next(weights_desc.get_size());
    auto* bias = reinterpret_cast<float*>(pieces.next(shapes.bias.get_size()));
    weights.execute(
        call.stream,
        {{DNNL_ARG_SRC, memory_at(call, shapes.input, source.data<float>())},
         {DNNL_ARG_DIFF_DST, memory_at(call, shapes.output, gradient.data<float>())},
         {DNNL_ARG_DIFF_WEIGHTS, memory_at(call, weights_desc, packed)},
         {DNNL_ARG_DIFF_BIAS, memory_at(call, shapes.bias, bias)},
         {DNNL_ARG_SCRATCHPAD, memory_at(call, scratch, pieces.next(scratch.get_size()))}});
    auto* plain = reinterpret_cast<float*>(pieces.next(plain_bytes));
    add_to_flat(packed, plain, flat.gradient, pieces, call);
    if (!shapes.has_bias) return;
    float* sums = flat.gradient + shapes.weights();
    for (int c = 0; c < shapes.out; ++c) sums[c] += bias[c];
  }

  Tensor input_gradient(const Flat& flat, const Tensor& gradient, Call& call) const {
    const memory::desc scratch = data_pd.scratchpad_desc();
    Tensor result = call.pool.take(shapes.input.get_size());
    Pieces pieces(call.workspace, {weights_in.bytes(), scratch.get_size()});
    const float* packed =
        weights_in.run(shapes, flat.weights, call, pieces.next(weights_in.bytes()));
    data.execute(
        call.stream,
        {{DNNL_ARG_DIFF_DST, memory_at(call, shapes.output, gradient.data<float>())},
         {DNNL_ARG_WEIGHTS, memory_at(call, data_pd.weights_desc(), packed)},
         {DNNL_ARG_DIFF_SRC, memory_at(call, shapes.input, result.data<float>())},
         {DNNL_ARG_SCRATCHPAD, memory_at(call, scratch, pieces.next(scratch.get_size()))}});
    return shapes.widened() ? narrowed(shapes, result, call) : result;
  }

 private:
  void add_to_flat(const std::byte* packed, float* plain, float* flat, Pieces& pieces,
                   Call& call) const {
    std::byte* scratch = pieces.next(gradient_out.scratch_bytes());
    if (!shapes.padded()) {
      gradient_out.run(call, packed, flat, scratch);
    } else if (gradient_out.needed()) {
      gradient_out.run(call, packed, plain, scratch);
      add_real(shapes, plain, flat);
    } else {
      add_real(shapes, reinterpret_cast<const float*>(packed), flat);
    }
  }
};

class Convolution : public Op {
 public:
  Convolution(const Shapes& s, const Forward::primitive_desc& forward, std::unique_ptr<Back> back,
              const Place& input)
      : Op(s.result),
        shapes_(s),
        forward_pd_(forward),
        forward_(forward),
        enter_(input.engine, input.layout, s.entry.layout),
        leave_(input.engine, s.entry.layout, input.layout),
        weights_in_(s, input.engine, forward.weights_desc()),
        back_(std::move(back)) {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const override {
    const Tensor entered = enter_.moved(std::move(input.tensor), call);
    const Tensor source = shapes_.widened() ? widened(shapes_, entered, call) : entered;
    Tensor result = call.pool.take(shapes_.output.get_size());
    const memory::desc scratch = forward_pd_.scratchpad_desc();
    Pieces pieces(call.workspace,
                  {weights_in_.bytes(), shapes_.bias.get_size(), scratch.get_size()});
    const float* weights =
        weights_in_.run(shapes_, flat.weights, call, pieces.next(weights_in_.bytes()));
    const float* bias =
        padded_bias(flat.weights + shapes_.weights(), pieces.next(shapes_.bias.get_size()));
    forward_.execute(
        call.stream,
        {{DNNL_ARG_SRC, memory_at(call, shapes_.input, source.data<float>())},
         {DNNL_ARG_WEIGHTS, memory_at(call, forward_pd_.weights_desc(), weights)},
         {DNNL_ARG_BIAS, memory_at(call, shapes_.bias, bias)},
         {DNNL_ARG_DST, memory_at(call, shapes_.output, result.data<float>())},
         {DNNL_ARG_SCRATCHPAD, memory_at(call, scratch, pieces.next(scratch.get_size()))}});
    if (kept != nullptr) kept->tensors = {entered};
    return {std::move(result), true};
  }

  /// W needs the input and the output's gradient; the latter is handed on to nobody, so that it
  /// stays as it is.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    kept.tensors.push_back(gradient.tensor);
    if (!wants_input) return {};
    return {leave_.moved(back_->input_gradient(flat, gradient.tensor, call), call), true};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Call& call) const override {
    const Tensor& entered = kept.tensors[0];
    const bool widen = back_->shapes.widened();
    back_->add_weight_gradient(flat, widen ? widened(back_->shapes, entered, call) : entered,
                               kept.tensors[1], call);
  }

 private:
  const float* padded_bias(const float* flat, std::byte* memory) const {
    if (!shapes_.has_bias || shapes_.out == shapes_.padded_out) return flat;
    auto* bias = reinterpret_cast<float*>(memory);
    std::fill_n(std::copy_n(flat, shapes_.out, bias), shapes_.padded_out - shapes_.out, 0.0F);
    return bias;
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
  std::unique_ptr<Back> back;
  if (input.mode == Mode::training) {
    const Shapes shapes = shapes_of(layer, input, true);
    back = std::make_unique<Back>(shapes, describe_forward(shapes, input), input.engine);
  }
  const Shapes shapes = shapes_of(layer, input, false);
  return std::make_unique<Convolution>(shapes, describe_forward(shapes, input), std::move(back),
                                       input);
}

}  // namespace unlatch::exec
