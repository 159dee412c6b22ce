// Layer normalisation by oneDNN; flat parameters gamma then beta.
#include <utility>

#include "exec/dnn_op.h"

namespace unlatch::exec {
namespace {

using dnnl::memory;
using Forward = dnnl::layer_normalization_forward;
using Backward = dnnl::layer_normalization_backward;

dnnl::normalization_flags scale_and_shift() {
  return dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
}

/// [tokens of all samples, features]
memory::desc rows_of(const Place& place) {
  return {{std::int64_t{place.samples} * place.shape.rows(), place.shape.features()},
          memory::data_type::f32,
          memory::format_tag::ab};
}

class LayerNorm : public Op {
 public:
  LayerNorm(const models::LayerNorm& layer, const Place& input)
      : Op(input),
        rows_(rows_of(input)),
        vector_({input.shape.features()}, memory::data_type::f32, memory::format_tag::a),
        forward_pd_({dnnl::prop_kind::forward_training, rows_, static_cast<float>(layer.epsilon),
                     scale_and_shift()},
                    user_scratchpad(), input.engine),
        backward_pd_({dnnl::prop_kind::backward, rows_, rows_, static_cast<float>(layer.epsilon),
                      scale_and_shift()},
                     user_scratchpad(), input.engine, forward_pd_),
        forward_(forward_pd_),
        backward_(backward_pd_) {}

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const override {
    const Tensor result = call.pool.take(rows_.get_size());
    const Tensor statistics = call.pool.take(2 * statistic().get_size());
    const memory::desc scratch = forward_pd_.scratchpad_desc();
    forward_.execute(call.stream,
                     {{DNNL_ARG_SRC, memory_at(call, rows_, input.tensor.data<float>())},
                      {DNNL_ARG_MEAN, memory_at(call, statistic(), mean_in(statistics))},
                      {DNNL_ARG_VARIANCE, memory_at(call, statistic(), variance_in(statistics))},
                      {DNNL_ARG_SCALE, memory_at(call, vector_, flat.weights)},
                      {DNNL_ARG_SHIFT, memory_at(call, vector_, shift_in(flat.weights))},
                      {DNNL_ARG_DST, memory_at(call, rows_, result.data<float>())},
                      {DNNL_ARG_SCRATCHPAD,
                       memory_at(call, scratch, call.workspace.at_least(scratch.get_size()))}});
    if (kept != nullptr) kept->tensors = {std::move(input.tensor), statistics};
    return {result, true};
  }

  /// The gradients of gamma and beta come out here, as batch norm's do; W only adds them.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    const Tensor& statistics = kept.tensors[1];
    const Tensor result = gradient.ours ? gradient.tensor : call.pool.take(rows_.get_size());
    const Tensor sums = call.pool.take(2 * vector_.get_size());
    const memory::desc scratch = backward_pd_.scratchpad_desc();
    backward_.execute(
        call.stream, {{DNNL_ARG_SRC, memory_at(call, rows_, kept.tensors[0].data<float>())},
                      {DNNL_ARG_MEAN, memory_at(call, statistic(), mean_in(statistics))},
                      {DNNL_ARG_VARIANCE, memory_at(call, statistic(), variance_in(statistics))},
                      {DNNL_ARG_SCALE, memory_at(call, vector_, flat.weights)},
                      {DNNL_ARG_SHIFT, memory_at(call, vector_, shift_in(flat.weights))},
                      {DNNL_ARG_DIFF_DST, memory_at(call, rows_, gradient.tensor.data<float>())},
                      {DNNL_ARG_DIFF_SRC, memory_at(call, rows_, result.data<float>())},
                      {DNNL_ARG_DIFF_SCALE, memory_at(call, vector_, sums.data<float>())},
                      {DNNL_ARG_DIFF_SHIFT, memory_at(call, vector_, shift_in(sums.data<float>()))},
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
  memory::desc statistic() const { return forward_pd_.mean_desc(); }
  static float* mean_in(const Tensor& statistics) { return statistics.data<float>(); }
  float* variance_in(const Tensor& statistics) const {
    return statistics.data<float>() + statistic().get_size() / sizeof(float);
  }
  const float* shift_in(const float* parameters) const {
    return parameters + output().shape.features();
  }

  memory::desc rows_;
  memory::desc vector_;
  Forward::primitive_desc forward_pd_;
  Backward::primitive_desc backward_pd_;
  Forward forward_;
  Backward backward_;
};

}  // namespace

std::unique_ptr<Op> make_layer_norm(const models::LayerNorm& layer, const Place& input) {
  return std::make_unique<LayerNorm>(layer, input);
}

}  // namespace unlatch::exec
