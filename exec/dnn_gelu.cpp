// GELU by oneDNN, in the exact form with erf, on whatever layout it gets.
#include <utility>

#include "exec/dnn_op.h"

namespace unlatch::exec {
namespace {

using Forward = dnnl::eltwise_forward;
using Backward = dnnl::eltwise_backward;

class Gelu : public Op {
 public:
  explicit Gelu(const Place& input)
      : Op(input),
        forward_pd_({dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_gelu_erf,
                     input.layout, 0.0F, 0.0F},
                    user_scratchpad(), input.engine),
        backward_pd_({dnnl::algorithm::eltwise_gelu_erf, input.layout, input.layout, 0.0F, 0.0F},
                     user_scratchpad(), input.engine, forward_pd_),
        forward_(forward_pd_),
        backward_(backward_pd_) {}

  Flow forward(const Flat&, Flow input, Kept* kept, Call& call) const override {
    const bool in_place = input.ours && kept == nullptr;
    const Tensor result = in_place ? input.tensor : call.pool.take(output().bytes());
    forward_.execute(call.stream, {{DNNL_ARG_SRC, at(call, input.tensor)},
                                   {DNNL_ARG_DST, at(call, result)},
                                   {DNNL_ARG_SCRATCHPAD, scratch_of(forward_pd_, call)}});
    if (kept != nullptr) kept->tensors = {std::move(input.tensor)};
    return {result, true};
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    const Kept done = std::exchange(kept, {});
    if (!wants_input) return {};
    const Tensor result = gradient.ours ? gradient.tensor : call.pool.take(output().bytes());
    backward_.execute(call.stream, {{DNNL_ARG_SRC, at(call, done.tensors[0])},
                                    {DNNL_ARG_DIFF_DST, at(call, gradient.tensor)},
                                    {DNNL_ARG_DIFF_SRC, at(call, result)},
                                    {DNNL_ARG_SCRATCHPAD, scratch_of(backward_pd_, call)}});
    return {result, true};
  }

 private:
  dnnl::memory at(const Call& call, const Tensor& tensor) const {
    return memory_at(call, output().layout, tensor.data<float>());
  }
  static dnnl::memory scratch_of(const dnnl::primitive_desc& description, Call& call) {
    const dnnl::memory::desc scratch = description.scratchpad_desc();
    return memory_at(call, scratch, call.workspace.at_least(scratch.get_size()));
  }

  Forward::primitive_desc forward_pd_;
  Backward::primitive_desc backward_pd_;
  Forward forward_;
  Backward backward_;
};

}  // namespace

std::unique_ptr<Op> make_gelu(const Place& input) { return std::make_unique<Gelu>(input); }

}  // namespace unlatch::exec
