// Layer: what one layer of a network is, as plain facts; no clock, no device, no weights.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace unlatch::models {

/// One sample as [channels, height, width]; a vector is [features, 1, 1], a sequence
/// [tokens, 1, features], so that the features of a token lie together.
struct SampleShape {
  int channels = 1;
  int height = 1;
  int width = 1;
  bool is_sequence = false;
  std::int64_t elements() const { return std::int64_t{channels} * height * width; }
  /// Vectors that a linear layer takes one by one and a loss has labels for: tokens, or 1.
  int rows() const { return is_sequence ? channels : 1; }
  std::int64_t features() const { return elements() / rows(); }  ///< numbers of one of them
  friend bool operator==(const SampleShape&, const SampleShape&) = default;
};

struct Layer;

struct Convolution {
  int out_channels = 1;
  int kernel = 3;
  int stride = 1;
  int padding = 0;
  bool bias = true;
  int groups = 1;  ///< group g of the outputs sees group g of the inputs alone
};
/// Normalises each channel over the batch; running statistics for evaluation.
struct BatchNorm {
  double momentum = 0.1;  ///< running = (1 - momentum) * running + momentum * batch
  double epsilon = 1e-5;
};
struct Relu {};
/// Padding never is a maximum; it is smaller than the kernel, so that no window lies in it whole.
struct MaxPool {
  int kernel = 2;
  int stride = 2;
  int padding = 0;
};
struct GlobalAveragePool {};
/// Fully connected; flattens [C, H, W] in that order, but takes each token of a sequence by itself.
struct Linear {
  int out_features = 1;
  bool bias = true;
  /// Without bias and weights of its own: multiplies by the table of tokens of the embedding that
  /// its model begins with (Press and Wolf, EACL 2017, arXiv 1608.05859). See tied_head.h.
  bool tied = false;
};
/// In training each number is 0 with this probability and 1/(1 - probability) times itself
/// otherwise (Srivastava et al., JMLR 2014, scaled as in their section 10); in evaluation it is
/// itself.
struct Dropout {
  double probability = 0.5;  ///< in [0, 1)
  int number = 0;            ///< among those of the model, from its input; see dropout.h
};
/// y = body(x) + shortcut(x); an empty shortcut is the identity.
struct Residual {
  std::vector<Layer> body;
  std::vector<Layer> shortcut;
};
/// Numbers of tokens, a sequence of one feature, become rows of a table; a row of a second table is
/// added, one for each position. Hands back no gradient but zeros.
struct Embedding {
  int vocabulary = 256;
  int width = 1;
};
/// Normalises the features of every token (Ba et al. 2016, arXiv 1607.06450).
struct LayerNorm {
  double epsilon = 1e-5;
};
/// x Phi(x), the exact form with erf (Hendrycks and Gimpel 2016, arXiv 1606.08415).
struct Gelu {};
/// From [tokens, 1, 3 width], queries, keys and values of all heads in this order, to
/// [tokens, 1, width]: softmax(Q K^T / sqrt(width / heads)) V by head, a token seeing itself and
/// those before it (Vaswani et al. 2017, section 3.2). Has no weights: linear layers stand around
/// it.
struct CausalSelfAttention {
  int heads = 1;
};

struct Layer {
  std::string name;
  std::variant<Convolution, BatchNorm, Relu, MaxPool, GlobalAveragePool, Linear, Residual, Dropout,
               Embedding, LayerNorm, Gelu, CausalSelfAttention>
      kind;
};

/// One tensor of parameters inside the flat weights of its layer, row-major.
struct Parameter {
  std::string name;        ///< "conv1.weight"
  std::vector<int> shape;  ///< [out, in / groups, kh, kw], [out, in], or [channels]
  std::int64_t elements() const;
};

bool is_tied(const Layer& layer);
/// Throws Error, naming the layer, when it cannot take that input.
SampleShape output_shape(const Layer& layer, const SampleShape& input);
/// In the order of the flat weights: weight, bias; gamma, beta; token, position; body, then
/// shortcut. A tied layer has none.
std::vector<Parameter> parameters(const Layer& layer, const SampleShape& input);
std::int64_t parameter_count(const Layer& layer, const SampleShape& input);
/// Running statistics of batch norms (mean, then variance, each [channels]), same order.
std::int64_t statistic_count(const Layer& layer, const SampleShape& input);
/// Floating-point operations of one sample; a multiply-add counts 2.
std::int64_t forward_flops(const Layer& layer, const SampleShape& input);
/// Input gradient and weight gradient together.
std::int64_t backward_flops(const Layer& layer, const SampleShape& input);
/// Elements of one sample that the forward pass reads and writes, every layer of a residual by
/// itself, weights left out; the input gradient moves as many.
std::int64_t moved_elements(const Layer& layer, const SampleShape& input);
/// Bytes that backward needs of one sample beyond the weights: the float32 input of a layer, of
/// ReLU the output, for max pooling the place of each maximum, for dropout a byte a number; of
/// layer norm mean and variance of each token besides, of attention the softmax of all pairs. By
/// itself:
std::int64_t tape_bytes(const Layer& layer, const SampleShape& input);
/// Of layers one after the other, no tensor counted twice: what a ReLU keeps is the next one's
/// input.
std::int64_t tape_bytes(std::span<const Layer> layers, SampleShape input);
/// Bytes of one sample that the weight gradient needs once the input gradient is done: input and
/// output gradient of a layer with a weight matrix. (What batch norm keeps is of no sample.)
std::int64_t weight_grad_activation_bytes(const Layer& layer, const SampleShape& input);

}  // namespace unlatch::models
