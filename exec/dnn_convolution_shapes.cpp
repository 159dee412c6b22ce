#include "exec/dnn_convolution_shapes.h"

#include <algorithm>

namespace unlatch::exec {
namespace {

using dnnl::memory;

int rounded_up(int channels, int block) { return (channels + block - 1) / block * block; }

int block_of(const models::Convolution& layer, int inputs) {
  const int block = preferred_channel_block();
  const bool whole =
      inputs / layer.groups % block == 0 && layer.out_channels / layer.groups % block == 0;
  return layer.groups == 1 || whole ? block : 1;
}

}  // namespace

ConvolutionShapes shapes_of(const models::Convolution& layer, const Place& input, bool backward) {
  const auto f32 = memory::data_type::f32;
  const int block = block_of(layer, input.shape.channels);
  const bool image = layer.groups == 1 && input.shape.channels <= image_channels;
  const int filled = input.shape.channels == 1 && !backward ? 1 : image_channels;
  ConvolutionShapes s{.out = layer.out_channels,
                      .in = input.shape.channels,
                      .padded_out = rounded_up(layer.out_channels, block),
                      .padded_in = image ? filled : rounded_up(input.shape.channels, block),
                      .kernel = layer.kernel,
                      .groups = layer.groups,
                      .has_bias = layer.bias,
                      .input = {},
                      .output = {},
                      .weights_any = {},
                      .weights_plain = {},
                      .bias = {},
                      .strides = {layer.stride, layer.stride},
                      .padding = {layer.padding, layer.padding},
                      .entry = input,
                      .result = input};
  s.entry.layout = layout_of(s.entry, image ? 1 : block);
  s.result.shape = models::output_shape({.name = "convolution", .kind = layer}, input.shape);
  s.result.layout = layout_of(s.result, block);
  Place padded = s.entry;
  padded.shape.channels = s.padded_in;
  s.input = layout_of(padded, image ? 1 : block);
  padded = s.result;
  padded.shape.channels = s.padded_out;
  s.output = layout_of(padded, block);
  const bool grouped = s.groups > 1;
  const memory::dims weights =
      grouped ? memory::dims{s.groups, s.out / s.groups, s.in / s.groups, s.kernel, s.kernel}
              : dims4(s.padded_out, s.padded_in, s.kernel, s.kernel);
  s.weights_any = {weights, f32, memory::format_tag::any};
  s.weights_plain = {weights, f32, grouped ? memory::format_tag::goihw : memory::format_tag::oihw};
  if (layer.bias) s.bias = {{s.padded_out}, f32, memory::format_tag::x};
  return s;
}

void fill_up(const ConvolutionShapes& s, const float* flat, float* plain) {
  const std::ptrdiff_t row = std::ptrdiff_t{s.in} * s.kernel * s.kernel;
  const std::ptrdiff_t padded_row = std::ptrdiff_t{s.padded_in} * s.kernel * s.kernel;
  std::fill_n(plain, padded_row * s.padded_out, 0.0F);
  for (int o = 0; o < s.out; ++o) std::copy_n(flat + o * row, row, plain + o * padded_row);
}

void add_real(const ConvolutionShapes& s, const float* plain, float* flat) {
  const std::ptrdiff_t row = std::ptrdiff_t{s.in} * s.kernel * s.kernel;
  const std::ptrdiff_t padded_row = std::ptrdiff_t{s.padded_in} * s.kernel * s.kernel;
  for (int o = 0; o < s.out; ++o) {
    for (std::ptrdiff_t i = 0; i < row; ++i) flat[o * row + i] += plain[o * padded_row + i];
  }
}

Tensor widened(const ConvolutionShapes& s, const Tensor& images, Call& call) {
  const std::ptrdiff_t pixels = std::ptrdiff_t{s.entry.shape.height} * s.entry.shape.width;
  Tensor result = call.pool.take(s.input.get_size());
  const float* from = images.data<float>();
  float* to = result.data<float>();
  for (int n = 0; n < s.entry.samples; ++n) {
    to = std::copy_n(from + n * s.in * pixels, s.in * pixels, to);
    to = std::fill_n(to, (s.padded_in - s.in) * pixels, 0.0F);
  }
  return result;
}

Tensor narrowed(const ConvolutionShapes& s, const Tensor& images, Call& call) {
  const std::ptrdiff_t pixels = std::ptrdiff_t{s.entry.shape.height} * s.entry.shape.width;
  Tensor result = call.pool.take(s.entry.layout.get_size());
  const float* from = images.data<float>();
  float* to = result.data<float>();
  for (int n = 0; n < s.entry.samples; ++n) {
    to = std::copy_n(from + n * s.padded_in * pixels, s.in * pixels, to);
  }
  return result;
}

}  // namespace unlatch::exec
