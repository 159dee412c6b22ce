// Pooling by hand: oneDNN 2.6's forward is several times slower on AVX2, for the maximum because
// of the places it notes. One loop serves plain and blocked layouts: a group of `block` channels
// lies side by side at every pixel.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
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
  int padding;
};

/// The pixels of one window that lie in the input: rows and columns of the window, ends excluded.
struct Inside {
  std::ptrdiff_t corner;  ///< element of a group where the window begins, maybe outside
  int top, bottom;
  int left, right;
};

/// Channels handled at once: 4 in a block, 1 in a plain layout. The loops below are written over
/// these types, since the compiler does not vectorise them by itself.
template <int lanes>
struct Lanes {
  using Floats [[gnu::vector_size(4 * lanes)]] = float;
  using Ints [[gnu::vector_size(4 * lanes)]] = std::int32_t;
  using Bytes [[gnu::vector_size(lanes)]] = std::uint8_t;
};

template <class T>
T loaded(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Calls f(pixels of the window in a group of the input, first element of its result), for some
/// channels at a time.
template <int lanes, class F>
void for_each_window(const Window& w, const Groups& in, const Groups& out, F f) {
  std::ptrdiff_t result = 0;
  for (int v = 0; v < out.height; ++v) {
    const int y = v * w.stride - w.padding;
    for (int u = 0; u < out.width; ++u) {
      const int x = u * w.stride - w.padding;
      const Inside inside{.corner = (std::ptrdiff_t{y} * in.width + x) * in.block,
                          .top = std::max(0, -y),
                          .bottom = std::min(w.kernel, in.height - y),
                          .left = std::max(0, -x),
                          .right = std::min(w.kernel, in.width - x)};
      for (int c = 0; c < in.block; c += lanes, result += lanes) {
        Inside channels = inside;
        channels.corner += c;
        f(channels, result);
      }
    }
  }
}

/// Calls f(number of the pixel in the window, its element in the group), row by row; the usual
/// window without loops, a tenth faster.
template <class F>
void for_each_pixel(const Inside& inside, const Window& w, const Groups& in, F f) {
  if (w.kernel == 2 && inside.bottom - inside.top == 2 && inside.right - inside.left == 2) {
    f(0, inside.corner);
    f(1, inside.corner + in.block);
    f(2, inside.corner + std::ptrdiff_t{in.width} * in.block);
    f(3, inside.corner + (std::ptrdiff_t{in.width} + 1) * in.block);
    return;
  }
  for (int v = inside.top; v < inside.bottom; ++v) {
    for (int u = inside.left; u < inside.right; ++u) {
      f(v * w.kernel + u, inside.corner + (std::ptrdiff_t{v} * in.width + u) * in.block);
    }
  }
}

/// Maxima of one group and the pixel of the window each was found at, of equal ones the first. A
/// NaN wins and stays, so that a diverged training shows.
template <int lanes>
void pool_group(const Window& w, const Groups& in, const Groups& out, const float* x, float* y,
                std::uint8_t* where) {
  using Floats = typename Lanes<lanes>::Floats;
  using Ints = typename Lanes<lanes>::Ints;
  for_each_window<lanes>(w, in, out, [&](const Inside& inside, std::ptrdiff_t result) {
    Floats best = Floats{} - std::numeric_limits<float>::infinity();
    Ints place = Ints{} + (inside.top * w.kernel + inside.left);
    for_each_pixel(inside, w, in, [&](int pixel, std::ptrdiff_t element) {
      const auto at = loaded<Floats>(x + element);
      const Ints larger = (at > best) | (at != at);
      best = larger ? at : best;
      place = larger ? Ints{} + pixel : place;
    });
    const auto bytes = __builtin_convertvector(place, typename Lanes<lanes>::Bytes);
    std::memcpy(y + result, &best, sizeof best);
    std::memcpy(where + result, &bytes, sizeof bytes);
  });
}

/// Adds each gradient to the pixel its maximum came from.
template <int lanes>
void unpool_group(const Window& w, const Groups& in, const Groups& out, const float* g,
                  const std::uint8_t* where, float* dx) {
  using Floats = typename Lanes<lanes>::Floats;
  using Ints = typename Lanes<lanes>::Ints;
  for_each_window<lanes>(w, in, out, [&](const Inside& inside, std::ptrdiff_t result) {
    const auto gradient = loaded<Floats>(g + result);
    const Ints place =
        __builtin_convertvector(loaded<typename Lanes<lanes>::Bytes>(where + result), Ints);
    for_each_pixel(inside, w, in, [&](int pixel, std::ptrdiff_t element) {
      const Floats sum = loaded<Floats>(dx + element) + (place == pixel ? gradient : Floats{});
      std::memcpy(dx + element, &sum, sizeof sum);
    });
  });
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
      : Op(result), window_{layer.kernel, layer.stride, layer.padding}, in_(input), out_(result) {}

  Flow forward(const Flat&, Flow input, Kept* kept, Call& call) const override {
    Tensor result = call.pool.take(output().layout.get_size());
    const Tensor where = call.pool.take(result.bytes() / sizeof(float));
    with_lanes([&](auto lanes) {
      for (std::ptrdiff_t group = 0; group < in_.count; ++group) {
        pool_group<lanes>(window_, in_, out_, input.tensor.data<float>() + group * in_.floats(),
                          result.data<float>() + group * out_.floats(),
                          where.data<std::uint8_t>() + group * out_.floats());
      }
    });
    if (kept != nullptr) kept->tensors = {where};
    return {std::move(result), true};
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    const Kept done = std::exchange(kept, {});
    if (!wants_input) return {};
    Tensor result =
        call.pool.take_zeroed(static_cast<std::size_t>(in_.count * in_.floats()) * sizeof(float));
    with_lanes([&](auto lanes) {
      for (std::ptrdiff_t group = 0; group < in_.count; ++group) {
        unpool_group<lanes>(window_, in_, out_,
                            gradient.tensor.data<float>() + group * out_.floats(),
                            done.tensors[0].data<std::uint8_t>() + group * out_.floats(),
                            result.data<float>() + group * in_.floats());
      }
    });
    return {std::move(result), true};
  }

 private:
  template <class F>
  void with_lanes(F f) const {
    if (in_.block == 1) return f(std::integral_constant<int, 1>());
    f(std::integral_constant<int, 4>());
  }

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

  Flow backward_input(const Flat&, Kept&, Flow gradient, bool wants_input,
                      Call& call) const override {
    if (!wants_input) return {};
    Tensor result =
        call.pool.take(static_cast<std::size_t>(in_.count * in_.floats()) * sizeof(float));
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
