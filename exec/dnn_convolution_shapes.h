// What a convolution looks like to oneDNN's primitives, whose channel counts are rounded up.
#pragma once

#include "exec/dnn_op.h"

namespace unlatch::exec {

inline constexpr int image_channels = 3;

struct ConvolutionShapes {
  int out = 1;  ///< channels as the model has them
  int in = 1;
  int padded_out = 1;  ///< and as the primitives see them
  int padded_in = 1;
  int kernel = 1;
  int groups = 1;
  bool has_bias = true;
  dnnl::memory::desc input;
  dnnl::memory::desc output;
  dnnl::memory::desc weights_any;
  dnnl::memory::desc weights_plain;  ///< [padded out, padded in / groups, kernel, kernel]
  dnnl::memory::desc bias;           ///< empty without a bias
  dnnl::memory::dims strides;
  dnnl::memory::dims padding;
  Place entry;   ///< the input in the layout convolved
  Place result;  ///< the output in its layout

  bool padded() const { return out != padded_out || in != padded_in; }
  /// The input must be copied to get its extra channels (a blocked one has them already).
  bool widened() const { return in < image_channels && in != padded_in; }
  std::ptrdiff_t weights() const { return std::ptrdiff_t{out} * (in / groups) * kernel * kernel; }
};

/// Images of 3 channels have kernels of their own that read the plain layout, and forward one for
/// 1 channel. Otherwise one or two channels are filled up to three. Groups that are no whole blocks
/// are convolved in the plain layout, where nothing is filled up.
ConvolutionShapes shapes_of(const models::Convolution& layer, const Place& input, bool backward);

/// Plain images between their own channels and those the primitives see, the extra ones zero.
Tensor widened(const ConvolutionShapes& s, const Tensor& images, Call& call);
Tensor narrowed(const ConvolutionShapes& s, const Tensor& images, Call& call);

/// Flat weights into [padded out, padded in, k, k], the rest zero.
void fill_up(const ConvolutionShapes& s, const float* flat, float* plain);
/// Adds the part of a padded weight gradient that is real.
void add_real(const ConvolutionShapes& s, const float* plain, float* flat);

}  // namespace unlatch::exec
