// Where the branches of a residual block meet in oneDNN's layouts.
#include "exec/dnn_chain.h"
#include "exec/layer_residual.h"

namespace unlatch::exec {
namespace {

void add(const float* x, float* sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];
}

/// The two branches may end in different layouts.
class Joint {
 public:
  Joint(const Place& body, const Place& shortcut)
      : to_body_(body.engine, shortcut.layout, body.layout),
        to_shortcut_(body.engine, body.layout, shortcut.layout) {}

  Flow added(const Flow& sum, const Flow& beside, Call& call) const {
    return summed_gradients(sum, {to_body_.moved(beside.tensor, call), false}, call);
  }
  Flow into_shortcut(const Flow& gradient, Call& call) const {
    return {to_shortcut_.moved(gradient.tensor, call), to_shortcut_.needed()};
  }
  /// Of the input, which both branches take in one layout.
  static Flow summed_gradients(const Flow& one, const Flow& other, Call& call) {
    const Tensor sum = one.ours ? one.tensor : call.pool.copy_of(one.tensor);
    add(other.tensor.data<float>(), sum.data<float>(), sum.bytes() / sizeof(float));
    return {sum, true};
  }

 private:
  Reorder to_body_;
  Reorder to_shortcut_;
};

}  // namespace

std::unique_ptr<Op> make_residual(const models::Residual& layer, const Place& input) {
  return std::make_unique<ResidualOp<Op, Joint>>(Chain(layer.body, input),
                                                 Chain(layer.shortcut, input));
}

}  // namespace unlatch::exec
