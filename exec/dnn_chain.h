// Chain: layers one after the other as oneDNN calls.
#pragma once

#include "exec/dnn_op.h"
#include "exec/layer_chain.h"

namespace unlatch::exec {

using Chain = LayerChain<Op>;

}  // namespace unlatch::exec
