#include "tests/exec/reference_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/dropout.h"
#include "tests/exec/reference_sequence.h"

namespace unlatch::testing {
namespace {

using models::SampleShape;

struct Index {
  SampleShape s;
  std::size_t operator()(int n, int c, int y, int x) const {
    return ((static_cast<std::size_t>(n) * s.channels + c) * s.height + y) * s.width + x;
  }
};

std::size_t size_of(const SampleShape& s, int samples) {
  return static_cast<std::size_t>(s.elements()) * samples;
}

struct Case {
  SampleShape in;
  SampleShape out;
  int samples;
  const double* w;
  const Numbers& x;
};

/// Calls f(weight, input, output) with the three indices of every multiply-add.
template <class F>
void each_product(const models::Convolution& l, const SampleShape& in, const SampleShape& out,
                  int samples, F f) {
  const Index ix{in};
  const Index iy{out};
  const int seen = in.channels / l.groups;  // by each output, of its own group
  const Index iw{{seen, l.kernel, l.kernel}};
  for (int n = 0; n < samples; ++n)
    for (int o = 0; o < out.channels; ++o)
      for (int y = 0; y < out.height; ++y)
        for (int x = 0; x < out.width; ++x)
          for (int c = 0; c < seen; ++c)
            for (int v = 0; v < l.kernel; ++v)
              for (int u = 0; u < l.kernel; ++u) {
                const int sy = y * l.stride + v - l.padding;
                const int sx = x * l.stride + u - l.padding;
                if (sy < 0 || sx < 0 || sy >= in.height || sx >= in.width) continue;
                const int first = o / (out.channels / l.groups) * seen;
                f(iw(o, c, v, u), ix(n, first + c, sy, sx), iy(n, o, y, x));
              }
}

Reference convolution(const models::Convolution& l, const Case& t) {
  const std::size_t count =
      static_cast<std::size_t>(l.out_channels) * (t.in.channels / l.groups) * l.kernel * l.kernel;
  const int pixels = t.out.height * t.out.width;
  Numbers y(size_of(t.out, t.samples), 0.0);
  each_product(l, t.in, t.out, t.samples,
               [&](std::size_t a, std::size_t b, std::size_t c) { y[c] += t.w[a] * t.x[b]; });
  const auto channel = [pixels, channels = t.out.channels](std::size_t i) {
    return i / static_cast<std::size_t>(pixels) % static_cast<std::size_t>(channels);
  };
  if (l.bias) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += t.w[count + channel(i)];
  }
  const Numbers w(t.w, t.w + count);
  return {y, [l, in = t.in, out = t.out, samples = t.samples, w, x = t.x, count, channel](
                 const Numbers& g, double* dw) {
            Numbers dx(x.size(), 0.0);
            each_product(l, in, out, samples, [&](std::size_t a, std::size_t b, std::size_t c) {
              dw[a] += g[c] * x[b];
              dx[b] += g[c] * w[a];
            });
            if (l.bias) {
              for (std::size_t i = 0; i < g.size(); ++i) dw[count + channel(i)] += g[i];
            }
            return dx;
          }};
}

Reference batch_norm(const models::BatchNorm& l, const Case& t) {
  const auto channels = static_cast<std::size_t>(t.in.channels);
  const auto pixels = static_cast<std::size_t>(t.in.height) * t.in.width;
  const double count = static_cast<double>(pixels) * t.samples;
  const auto channel = [=](std::size_t i) { return i / pixels % channels; };
  Numbers mean(channels, 0.0);
  Numbers inverse(channels, 0.0);
  for (std::size_t i = 0; i < t.x.size(); ++i) mean[channel(i)] += t.x[i] / count;
  for (std::size_t i = 0; i < t.x.size(); ++i) {
    inverse[channel(i)] += std::pow(t.x[i] - mean[channel(i)], 2) / count;
  }
  for (double& v : inverse) v = 1 / std::sqrt(v + l.epsilon);
  Numbers normal(t.x.size());
  Numbers y(t.x.size());
  for (std::size_t i = 0; i < t.x.size(); ++i) {
    const std::size_t c = channel(i);
    normal[i] = (t.x[i] - mean[c]) * inverse[c];
    y[i] = t.w[c] * normal[i] + t.w[channels + c];
  }
  const Numbers gamma(t.w, t.w + channels);
  return {y, [=](const Numbers& g, double* dw) {
            Numbers sum(channels, 0.0);
            Numbers dot(channels, 0.0);
            for (std::size_t i = 0; i < g.size(); ++i) {
              sum[channel(i)] += g[i];
              dot[channel(i)] += g[i] * normal[i];
            }
            Numbers dx(g.size());
            for (std::size_t i = 0; i < g.size(); ++i) {
              const std::size_t c = channel(i);
              dx[i] = gamma[c] * inverse[c] * (g[i] - sum[c] / count - normal[i] * dot[c] / count);
            }
            for (std::size_t c = 0; c < channels; ++c) {
              dw[c] += dot[c];
              dw[channels + c] += sum[c];
            }
            return dx;
          }};
}

Reference relu(const Case& t) {
  Numbers y = t.x;
  for (double& v : y) v = std::max(v, 0.0);
  return {y, [x = t.x](const Numbers& g, double*) {
            Numbers dx(g.size(), 0.0);
            for (std::size_t i = 0; i < g.size(); ++i) dx[i] = x[i] > 0 ? g[i] : 0;
            return dx;
          }};
}

Reference max_pool(const models::MaxPool& l, const Case& t) {
  const Index ix{t.in};
  Numbers out;
  std::vector<std::size_t> from;
  for (int n = 0; n < t.samples; ++n)
    for (int c = 0; c < t.out.channels; ++c)
      for (int y = 0; y < t.out.height; ++y)
        for (int x = 0; x < t.out.width; ++x) {
          double best = -INFINITY;
          std::size_t place = 0;
          for (int v = 0; v < l.kernel; ++v)
            for (int u = 0; u < l.kernel; ++u) {
              const int sy = y * l.stride + v - l.padding;
              const int sx = x * l.stride + u - l.padding;
              if (sy < 0 || sx < 0 || sy >= t.in.height || sx >= t.in.width) continue;
              const std::size_t i = ix(n, c, sy, sx);
              if (!(t.x[i] > best)) continue;
              best = t.x[i];
              place = i;
            }
          out.push_back(best);
          from.push_back(place);
        }
  return {out, [from, size = t.x.size()](const Numbers& g, double*) {
            Numbers dx(size, 0.0);
            for (std::size_t i = 0; i < g.size(); ++i) dx[from[i]] += g[i];
            return dx;
          }};
}

Reference average(const Case& t) {
  const auto pixels = static_cast<std::size_t>(t.in.height) * t.in.width;
  Numbers y(size_of(t.out, t.samples), 0.0);
  for (std::size_t i = 0; i < t.x.size(); ++i)
    y[i / pixels] += t.x[i] / static_cast<double>(pixels);
  return {y, [pixels, size = t.x.size()](const Numbers& g, double*) {
            Numbers dx(size);
            for (std::size_t i = 0; i < size; ++i)
              dx[i] = g[i / pixels] / static_cast<double>(pixels);
            return dx;
          }};
}

Reference linear(const models::Linear& l, const Case& t) {
  const auto in = static_cast<std::size_t>(t.in.features());
  const auto out = static_cast<std::size_t>(l.out_features);
  const auto samples = static_cast<std::size_t>(t.samples * t.in.rows());
  Numbers y(samples * out, 0.0);
  for (std::size_t n = 0; n < samples; ++n)
    for (std::size_t o = 0; o < out; ++o) {
      double& sum = y[n * out + o];
      if (l.bias) sum = t.w[in * out + o];
      for (std::size_t i = 0; i < in; ++i) sum += t.w[o * in + i] * t.x[n * in + i];
    }
  const Numbers w(t.w, t.w + in * out);
  return {y, [=, bias = l.bias, x = t.x](const Numbers& g, double* dw) {
            Numbers dx(samples * in, 0.0);
            for (std::size_t n = 0; n < samples; ++n)
              for (std::size_t o = 0; o < out; ++o) {
                const double go = g[n * out + o];
                if (bias) dw[in * out + o] += go;
                for (std::size_t i = 0; i < in; ++i) {
                  dw[o * in + i] += go * x[n * in + i];
                  dx[n * in + i] += go * w[o * in + i];
                }
              }
            return dx;
          }};
}

/// On the first part of batch 0 of a run with seed 0.
Reference dropout(const models::Dropout& l, const Case& t) {
  const auto mask = models::mask_of(l.probability, l.number, models::draw_of(0, 0, 0));
  const std::int64_t size = t.in.elements();
  Numbers factors(t.x.size()), y(t.x.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    factors[i] = mask.keeps(at / size, at % size) ? 1 / (1 - l.probability) : 0;
    y[i] = factors[i] * t.x[i];
  }
  return {y, [factors](const Numbers& g, double*) {
            Numbers dx(g.size());
            for (std::size_t i = 0; i < g.size(); ++i) dx[i] = factors[i] * g[i];
            return dx;
          }};
}

std::int64_t parameters_of(const std::vector<models::Layer>& layers, SampleShape shape) {
  std::int64_t count = 0;
  for (const models::Layer& layer : layers) {
    count += models::parameter_count(layer, shape);
    shape = models::output_shape(layer, shape);
  }
  return count;
}

Reference residual(const models::Residual& l, const Case& t) {
  const auto split = parameters_of(l.body, t.in);
  const Reference body = reference(l.body, t.in, t.samples, t.w, t.x);
  const Reference beside = reference(l.shortcut, t.in, t.samples, t.w + split, t.x);
  Numbers y = body.output;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += beside.output[i];
  return {y, [=](const Numbers& g, double* dw) {
            Numbers dx = body.backward(g, dw);
            const Numbers more = beside.backward(g, dw + split);
            for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += more[i];
            return dx;
          }};
}

struct Visit {
  const Case& t;
  Reference operator()(const models::Convolution& l) { return convolution(l, t); }
  Reference operator()(const models::BatchNorm& l) { return batch_norm(l, t); }
  Reference operator()(const models::Relu&) { return relu(t); }
  Reference operator()(const models::MaxPool& l) { return max_pool(l, t); }
  Reference operator()(const models::GlobalAveragePool&) { return average(t); }
  Reference operator()(const models::Linear& l) { return linear(l, t); }
  Reference operator()(const models::Residual& l) { return residual(l, t); }
  Reference operator()(const models::Dropout& l) { return dropout(l, t); }
  Reference operator()(const auto& of_sequence) {
    return reference_of(of_sequence, {t.in, t.samples, t.w, t.x});
  }
};

}  // namespace

Reference reference(const models::Layer& layer, const SampleShape& shape, int samples,
                    const double* weights, const Numbers& input) {
  const Case t{shape, models::output_shape(layer, shape), samples, weights, input};
  return std::visit(Visit{t}, layer.kind);
}

Reference reference(std::span<const models::Layer> layers, SampleShape shape, int samples,
                    const double* weights, const Numbers& input) {
  std::vector<std::function<Numbers(const Numbers&, double*)>> back;
  std::vector<std::ptrdiff_t> places;  // of each layer's weights
  std::ptrdiff_t place = 0;
  Numbers x = input;
  for (const models::Layer& layer : layers) {
    Reference next = reference(layer, shape, samples, weights + place, x);
    x = std::move(next.output);
    back.push_back(std::move(next.backward));
    places.push_back(place);
    place += models::parameter_count(layer, shape);
    shape = models::output_shape(layer, shape);
  }
  return {x, [back, places](const Numbers& gradient, double* dw) {
            Numbers g = gradient;
            for (std::size_t j = back.size(); j-- > 0;) g = back[j](g, dw + places[j]);
            return g;
          }};
}

}  // namespace unlatch::testing
