// Batch normalisation by oneDNN; flat parameters gamma then beta, statistics mean then variance.
#include <utility>

#include "exec/dnn_op.h"

namespace unlatch::exec {
namespace {

using dnnl::memory;
using dnnl::normalization_flags;
using Forward = dnnl::batch_normalization_forward;
using Backward = dnnl::batch_normalization_backward;

normalization_flags scale_and_shift() {
  return normalization_flags::use_scale | normalization_flags::use_shift;
}

Forward::primitive_desc describe_forward(const models::BatchNorm& layer, const Place& input) {
  const bool training = input.mode == Mode::training;
  const auto kind =
      training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const auto flags =
      training ? scale_and_shift() : scale_and_shift() | normalization_flags::use_global_stats;
  return {Forward::desc(kind, input.layout, static_cast<float>(layer.epsilon), flags),
          user_scratchpad(), input.engine};
}

class BatchNorm : public Op {
 public:
  BatchNorm(const models::BatchNorm& layer, const Forward::primitive_desc& forward,
            const Place& input)
      : Op(input),
        momentum_(static_cast<float>(layer.momentum)),
        channels_(input.shape.channels),
        vector_({channels_}, memory::data_type::f32, memory::format_tag::x),
        forward_pd_(forward),
        forward_(forward) {
    if (input.mode == Mode::inference) return;
    backward_pd_ = Backward::primitive_desc(
        Backward::desc(dnnl::prop_kind::backward, input.layout, input.layout,
                       static_cast<float>(layer.epsilon), scale_and_shift()),
        user_scratchpad(), input.engine, forward_pd_);
    backward_ = Backward(backward_pd_);
  }

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const override {
    const bool training = output().mode == Mode::training;
    // The batch's own mean and variance; in inference the running ones are read in place.
    const Tensor batch = training ? call.pool.take(2 * vector_.get_size()) : Tensor();
    float* mean = training ? batch.data<float>() : flat.statistics;
    const bool in_place = input.ours && kept == nullptr;
    Tensor result = in_place ? input.tensor : call.pool.take(output().layout.get_size());
    const memory::desc scratch = forward_pd_.scratchpad_desc();
    forward_.execute(call.stream,
                     {{DNNL_ARG_SRC, memory_at(call, output().layout, input.tensor.data<float>())},
                      {DNNL_ARG_MEAN, memory_at(call, vector_, mean)},
                      {DNNL_ARG_VARIANCE, memory_at(call, vector_, mean + channels_)},
                      {DNNL_ARG_SCALE, memory_at(call, vector_, flat.weights)},
                      {DNNL_ARG_SHIFT, memory_at(call, vector_, flat.weights + channels_)},
                      {DNNL_ARG_DST, memory_at(call, output().layout, result.data<float>())},
                      {DNNL_ARG_SCRATCHPAD,
                       memory_at(call, scratch, call.workspace.at_least(scratch.get_size()))}});
    if (training && flat.statistics != nullptr) update_running(mean, flat.statistics);
    if (kept != nullptr) kept->tensors = {std::move(input.tensor), batch};
    return {std::move(result), true};
  }

  /// With the mean, variance and input of F's time and the gamma that is passed in. The input
  /// gradient is made of the very sums that are the gradients of scale and shift, so they come out
  /// here and W only adds them: the large input need not be kept for it.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    const Tensor& source = kept.tensors[0];
    const float* mean = kept.tensors[1].data<float>();
    const Tensor result =
        gradient.ours ? gradient.tensor : call.pool.take(output().layout.get_size());
    const memory::desc scratch = backward_pd_.scratchpad_desc();
    const Tensor sums = call.pool.take(2 * vector_.get_size());
    auto* scale = sums.data<float>();
    backward_.execute(
        call.stream,
        {{DNNL_ARG_SRC, memory_at(call, output().layout, source.data<float>())},
         {DNNL_ARG_MEAN, memory_at(call, vector_, mean)},
         {DNNL_ARG_VARIANCE, memory_at(call, vector_, mean + channels_)},
         {DNNL_ARG_SCALE, memory_at(call, vector_, flat.weights)},
         // Not used, but oneDNN 2.6.3 refuses to run without it.
         {DNNL_ARG_SHIFT, memory_at(call, vector_, flat.weights + channels_)},
         {DNNL_ARG_DIFF_DST, memory_at(call, output().layout, gradient.tensor.data<float>())},
         {DNNL_ARG_DIFF_SRC, memory_at(call, output().layout, result.data<float>())},
         {DNNL_ARG_DIFF_SCALE, memory_at(call, vector_, scale)},
         {DNNL_ARG_DIFF_SHIFT, memory_at(call, vector_, scale + channels_)},
         {DNNL_ARG_SCRATCHPAD,
          memory_at(call, scratch, call.workspace.at_least(scratch.get_size()))}});
    kept.tensors = {sums};
    return wants_input ? Flow{result, true} : Flow{};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Call&) const override {
    const auto sums = kept.tensors[0].as<float>();
    for (std::size_t c = 0; c < sums.size(); ++c) flat.gradient[c] += sums[c];
  }

 private:
  /// The running variance takes the unbiased estimate, as PyTorch's does.
  void update_running(const float* batch, float* running) const {
    const auto& place = output();
    const double count =
        static_cast<double>(place.samples) * place.shape.height * place.shape.width;
    const auto unbiased = static_cast<float>(count > 1 ? count / (count - 1) : 1);
    for (int c = 0; c < channels_; ++c) {
      running[c] += momentum_ * (batch[c] - running[c]);
      float& variance = running[channels_ + c];
      variance += momentum_ * (unbiased * batch[channels_ + c] - variance);
    }
  }

  float momentum_;
  int channels_;
  memory::desc vector_;
  Forward::primitive_desc forward_pd_;
  Forward forward_;
  Backward::primitive_desc backward_pd_;
  Backward backward_;
};

}  // namespace

std::unique_ptr<Op> make_batch_norm(const models::BatchNorm& layer, const Place& input) {
  return std::make_unique<BatchNorm>(layer, describe_forward(layer, input), input);
}

}  // namespace unlatch::exec
