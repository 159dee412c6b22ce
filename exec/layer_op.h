// LayerOp: one layer as calls of some library; what chains and residual blocks are made of.
#pragma once

#include <memory>
#include <utility>
#include <variant>

#include "exec/layer_flow.h"
#include "models/layer.h"
#include "models/overloaded.h"

namespace unlatch::exec {

/// PlaceType: where a layer sits, its shape and bytes(). CallType: what belongs to one call.
template <class PlaceType, class CallType>
class LayerOp {
 public:
  using Place = PlaceType;
  using Call = CallType;

  virtual ~LayerOp() = default;
  /// Fills `kept` unless it is null. Thread-safe, as the ways back are, if the calls are apart.
  virtual Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call) const = 0;
  /// B: I, then W. Returns the gradient of the input, or nothing if it is not wanted.
  virtual Flow backward(const Flat& flat, const Kept& kept, Flow gradient, bool wants_input,
                        Call& call) const {
    Kept part = kept;  // shares the tensors
    Flow input = backward_input(flat, part, std::move(gradient), wants_input, call);
    backward_weight(flat, part, call);
    return input;
  }
  /// I: returns as B does; leaves in `kept` what W needs and nothing else.
  virtual Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                              Call& call) const = 0;
  /// W: adds to the weight gradient; reads no weights. Layers without weights do nothing.
  virtual void backward_weight(const Flat&, const Kept&, Call&) const {}
  const Place& output() const { return output_; }

 protected:
  explicit LayerOp(Place output) : output_(std::move(output)) {}

 private:
  Place output_;
};

/// By the make_convolution(), make_batch_norm() .. of the library that the place belongs to.
template <class Place>
auto make_layer(const models::Layer& layer, const Place& input) {
  return std::visit(
      models::Overloaded{
          [&](const models::Convolution& l) { return make_convolution(l, input); },
          [&](const models::BatchNorm& l) { return make_batch_norm(l, input); },
          [&](const models::Relu&) { return make_relu(input); },
          [&](const models::MaxPool& l) { return make_max_pool(l, input); },
          [&](const models::GlobalAveragePool&) { return make_global_average_pool(input); },
          [&](const models::Linear& l) { return make_linear(l, input); },
          [&](const models::Residual& l) { return make_residual(l, input); },
          [&](const models::Dropout& l) { return make_dropout(l, input); },
          [&](const models::Embedding& l) { return make_embedding(l, input); },
          [&](const models::LayerNorm& l) { return make_layer_norm(l, input); },
          [&](const models::Gelu&) { return make_gelu(input); },
          [&](const models::CausalSelfAttention& l) { return make_attention(l, input); }},
      layer.kind);
}

}  // namespace unlatch::exec
