// Pooling by hand: oneDNN 2.6's forward is several times slower on AVX2, for the maximum because
// of the places it notes. One loop serves plain and blocked layouts: a group of `block` channels
// lies side by side at every pixel.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "exec/dnn_op.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

/// Pixels and channel groups of one tensor.
struct Groups {
  int block;
  std::ptrdiff_t count;  ///< groups over all samples
  int height;
  int width;

  explicit Groups(const Place& place)
      : block(channel_block(place)),
        count(std::ptrdiff_t{place.samples} * ((place.shape.channels + block - 1) / block)),
        height(place.shape.height),
        width(place.shape.width) {}

  std::ptrdiff_t floats() const { return std::ptrdiff_t{block} * height * width; }  ///< a group
};

struct Window {
  int kernel;
  int stride;
};

/// Maxima of one group and the pixel of the window each was found at. A NaN wins and stays, so
/// that a diverged training shows.
template <int block>
void pool_group(const Window& w, const Groups& in, const Groups& out, const float* x, float* y,
                std::uint8_t* where) {
  for (int v = 0; v < out.height; ++v) {
    for (int u = 0; u < out.width; ++u) {
      const float* corner = x + (std::ptrdiff_t{v} * in.width + u) * w.stride * block;
      float best[block];
      std::int32_t place[block] = {};
      std::copy_n(corner, block, best);
      for (int pixel = 1; pixel < w.kernel * w.kernel; ++pixel) {
        const float* at = corner + (pixel / w.kernel * in.width + pixel % w.kernel) * block;
        for (int c = 0; c < block; ++c) {
          const bool larger = (at[c] > best[c]) | (at[c] != at[c]);
          best[c] = larger ? at[c] : best[c];
          place[c] = larger ? pixel : place[c];
        }
      }
      for (int c = 0; c < block; ++c) {
        *y++ = best[c];
        *where++ = static_cast<std::uint8_t>(place[c]);
      }
    }
  }
}

/// Adds each gradient to the pixel its maximum came from.
template <int block>
void unpool_group(const Window& w, const Groups& in, const Groups& out, const float* g,
                  const std::uint8_t* where, float* dx) {
  for (int v = 0; v < out.height; ++v) {
    for (int u = 0; u < out.width; ++u) {
      float* corner = dx + (std::ptrdiff_t{v} * in.width + u) * w.stride * block;
      for (int pixel = 0; pixel < w.kernel * w.kernel; ++pixel) {
        float* at = corner + (pixel / w.kernel * in.width + pixel % w.kernel) * block;
        for (int c = 0; c < block; ++c) {
          const float passed = g[c];
          at[c] += where[c] == pixel ? passed : 0.0F;
        }
      }
      g += block;
      where += block;
    }
  }
}

/// Calls f with the block as a constant, which lets the compiler keep it in registers.
template <class F>
void with_block(int block, F f) {
  if (block == 1) return f(std::integral_constant<int, 1>());
  if (block == 8) return f(std::integral_constant<int, 8>());
  f(std::integral_constant<int, 16>());
}

class MaxPool : public Op {
 public:
  MaxPool(const models::MaxPool& layer, const Place& input, const Place& result)
      : Op(result), window_{layer.kernel, layer.stride}, in_(input), out_(result) {}

  Flow forward(const Flat&, Flow input, Kept* kept, Call& call) const override {
    Tensor result = call.pool.take(output().layout.get_size());
    const Tensor where = call.pool.take(result.bytes() / sizeof(float));
    with_block(in_.block, [&](auto block) {
      for (std::ptrdiff_t group = 0; group < in_.count; ++group) {
        pool_group<block>(window_, in_, out_, input.tensor.data<float>() + group * in_.floats(),
                          result.data<float>() + group * out_.floats(),
                          where.data<std::uint8_t>() + group * out_.floats());
      }
    });
    if (kept != nullptr) kept->tensors = {where};
    return {std::move(result), true};
  }

  Flow backward(const Flat&, const Kept& kept, Flow gradient, bool wants_input,
                Call& call) const override {
    if (!wants_input) return {};
    Tensor result = call.pool.take_zeroed(static_cast<std::size_t>(in_.count * in_.floats()) *
                                          sizeof(float));
    with_block(in_.block, [&](auto block) {
      for (std::ptrdiff_t group = 0; group < in_.count; ++group) {
        unpool_group<block>(window_, in_, out_,
                            gradient.tensor.data<float>() + group * out_.floats(),
                            kept.tensors[0].data<std::uint8_t>() + group * out_.floats(),
                            result.data<float>() + group * in_.floats());
      }
    });
    return {std::move(result), true};
  }

 private:
  Window window_;
  Groups in_;
  Groups out_;
};

class GlobalAveragePool : public Op {
 public:
  explicit GlobalAveragePool(const Place& input)
      : Op(averaged(input)), in_(input), channels_(input.shape.channels) {}

  Flow forward(const Flat&, Flow input, Kept*, Call& call) const override {
    Tensor result = call.pool.take(output().layout.get_size());
    const float share = 1.0F / static_cast<float>(pixels());
    with_block(in_.block, [&](auto block) {
      for (std::ptrdiff_t group = 0; group < in_.count; ++group) {
        const float* x = input.tensor.data<float>() + group * in_.floats();
        float sums[block] = {};
        for (int p = 0; p < pixels(); ++p) {
          for (int c = 0; c < block; ++c) sums[c] += x[block * p + c];
        }
        float* y = result.data<float>() + first_channel(group);
        for (int c = 0; c < real_channels(group); ++c) y[c] = sums[c] * share;
      }
    });
    return {std::move(result), true};
  }

  Flow backward(const Flat&, const Kept&, Flow gradient, bool wants_input,
                Call& call) const override {
    if (!wants_input) return {};
    Tensor result = call.pool.take(static_cast<std::size_t>(in_.count * in_.floats()) *
                                   sizeof(float));
    const float share = 1.0F / static_cast<float>(pixels());
    with_block(in_.block, [&](auto block) {
      for (std::ptrdiff_t group = 0; group < in_.count; ++group) {
        const float* g = gradient.tensor.data<float>() + first_channel(group);
        float values[block] = {};  // channels that only fill the block up get zeros
        for (int c = 0; c < real_channels(group); ++c) values[c] = g[c] * share;
        float* out = result.data<float>() + group * in_.floats();
        for (int p = 0; p < pixels(); ++p) std::copy_n(values, block(), out + block * p);
      }
    });
    return {std::move(result), true};
  }

 private:
  static Place averaged(Place place) {
    place.shape = {place.shape.channels, 1, 1};
    place.layout = plain_layout(place.samples, place.shape);
    return place;
  }

  int pixels() const { return in_.height * in_.width; }
  std::ptrdiff_t groups_a_sample() const { return (channels_ + in_.block - 1) / in_.block; }
  /// Index of the group's first average in [samples, channels].
  std::ptrdiff_t first_channel(std::ptrdiff_t group) const {
    return group / groups_a_sample() * channels_ + group % groups_a_sample() * in_.block;
  }
  int real_channels(std::ptrdiff_t group) const {
    const auto before = static_cast<int>(group % groups_a_sample()) * in_.block;
    return std::min(in_.block, channels_ - before);
  }

  Groups in_;
  int channels_;
};

}  // namespace

std::unique_ptr<Op> make_max_pool(const models::MaxPool& layer, const Place& input) {
  require(layer.kernel <= 16, "max pool: windows up to 16x16 are supported, not {}x{}",
          layer.kernel, layer.kernel);
  Place result = input;
  result.shape = models::output_shape({.name = "max pool", .kind = layer}, input.shape);
  result.layout = layout_of(result, channel_block(input));
  return std::make_unique<MaxPool>(layer, input, result);
}

std::unique_ptr<Op> make_global_average_pool(const Place& input) {
  return std::make_unique<GlobalAveragePool>(input);
}

}  // namespace unlatch::exec
