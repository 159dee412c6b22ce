// Where the branches of a residual block meet on a GPU.
#include "exec/cuda_op.h"
#include "exec/layer_residual.h"

namespace unlatch::exec::cuda {
namespace {

class Joint {
 public:
  Joint(const Place&, const Place&) {}

  static Flow added(const Flow& sum, const Flow& beside, Device& device) {
    const Tensor all = sum.ours ? sum.tensor : device.copy_of(sum.tensor);
    const Precision precision = device.settings().precision;
    device.launch(launch_add, precision, device.read<void>(beside.tensor), device.write<void>(all),
                  all.bytes() / bytes_of(precision));
    return {all, true};
  }
  static Flow summed_gradients(const Flow& one_branch, const Flow& other, Device& device) {
    return added(one_branch, other, device);
  }
  static Flow into_shortcut(const Flow& gradient, Device&) { return gradient; }
};

}  // namespace

std::unique_ptr<Op> make_residual(const models::Residual& layer, const Place& input) {
  using Chain = LayerChain<Op>;
  return std::make_unique<ResidualOp<Op, Joint>>(Chain(layer.body, input),
                                                 Chain(layer.shortcut, input));
}

}  // namespace unlatch::exec::cuda
