#include "tests/exec/reference_sequence.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace unlatch::testing {
namespace {

using Size = std::size_t;

/// Normal density and distribution.
double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double distribution(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

/// Where one head of one sample finds its numbers.
struct Head {
  Size tokens, width, size, sample, head;

  /// part 0: queries, 1: keys, 2: values.
  Size in(Size part, Size token, Size i) const {
    return (sample * tokens + token) * 3 * width + part * width + head * size + i;
  }
  Size out(Size token, Size i) const { return (sample * tokens + token) * width + head * size + i; }
};

/// Softmax over the tokens up to t of the scores of query t.
Numbers weights_of(const Head& h, const Numbers& x, Size t) {
  Numbers p(t + 1);
  double sum = 0;
  for (Size s = 0; s <= t; ++s) {
    double score = 0;
    for (Size i = 0; i < h.size; ++i) score += x[h.in(0, t, i)] * x[h.in(1, s, i)];
    p[s] = std::exp(score / std::sqrt(static_cast<double>(h.size)));
    sum += p[s];
  }
  for (double& value : p) value /= sum;
  return p;
}

void attend(const Head& h, const Numbers& x, Numbers& y) {
  for (Size t = 0; t < h.tokens; ++t) {
    const Numbers p = weights_of(h, x, t);
    for (Size s = 0; s <= t; ++s)
      for (Size i = 0; i < h.size; ++i) y[h.out(t, i)] += p[s] * x[h.in(2, s, i)];
  }
}

/// By the chain rule through each query's softmax, whose Jacobian is diag(p) - p p^T.
void attend_back(const Head& h, const Numbers& x, const Numbers& g, Numbers& dx) {
  const double scale = 1 / std::sqrt(static_cast<double>(h.size));
  for (Size t = 0; t < h.tokens; ++t) {
    const Numbers p = weights_of(h, x, t);
    Numbers dp(t + 1, 0.0);
    for (Size s = 0; s <= t; ++s)
      for (Size i = 0; i < h.size; ++i) {
        dp[s] += g[h.out(t, i)] * x[h.in(2, s, i)];
        dx[h.in(2, s, i)] += p[s] * g[h.out(t, i)];
      }
    for (Size s = 0; s <= t; ++s) {
      double score = 0;
      for (Size r = 0; r <= t; ++r) score += ((r == s ? p[s] : 0) - p[r] * p[s]) * dp[r];
      for (Size i = 0; i < h.size; ++i) {
        dx[h.in(0, t, i)] += scale * score * x[h.in(1, s, i)];
        dx[h.in(1, s, i)] += scale * score * x[h.in(0, t, i)];
      }
    }
  }
}

template <class F>
void each_head(const models::CausalSelfAttention& layer, const models::SampleShape& in, int samples,
               F f) {
  const auto width = static_cast<Size>(in.width) / 3;
  const auto heads = static_cast<Size>(layer.heads);
  for (Size n = 0; n < static_cast<Size>(samples); ++n)
    for (Size h = 0; h < heads; ++h)
      f(Head{static_cast<Size>(in.channels), width, width / heads, n, h});
}

}  // namespace

Reference reference_of(const models::Embedding& layer, const SequenceCase& given) {
  const auto width = static_cast<Size>(layer.width);
  const auto tokens = static_cast<Size>(given.in.channels);
  const auto positions = static_cast<Size>(layer.vocabulary) * width;
  Numbers y(given.x.size() * width);
  for (Size r = 0; r < given.x.size(); ++r)
    for (Size c = 0; c < width; ++c) {
      y[r * width + c] = given.w[static_cast<Size>(given.x[r]) * width + c] +
                         given.w[positions + r % tokens * width + c];
    }
  return {y, [=, x = given.x](const Numbers& g, double* dw) {
            for (Size r = 0; r < x.size(); ++r)
              for (Size c = 0; c < width; ++c) {
                dw[static_cast<Size>(x[r]) * width + c] += g[r * width + c];
                dw[positions + r % tokens * width + c] += g[r * width + c];
              }
            return Numbers(x.size(), 0.0);
          }};
}

Reference reference_of(const models::LayerNorm& layer, const SequenceCase& given) {
  const auto n = static_cast<Size>(given.in.width);
  const Numbers& x = given.x;
  const Numbers gamma(given.w, given.w + n);
  Numbers normal(x.size()), inverse(x.size() / n), y(x.size());
  for (Size r = 0; r < inverse.size(); ++r) {
    double mean = 0, variance = 0;
    for (Size c = 0; c < n; ++c) mean += x[r * n + c] / static_cast<double>(n);
    for (Size c = 0; c < n; ++c)
      variance += std::pow(x[r * n + c] - mean, 2) / static_cast<double>(n);
    inverse[r] = 1 / std::sqrt(variance + layer.epsilon);
    for (Size c = 0; c < n; ++c) {
      normal[r * n + c] = (x[r * n + c] - mean) * inverse[r];
      y[r * n + c] = gamma[c] * normal[r * n + c] + given.w[n + c];
    }
  }
  return {y, [=](const Numbers& g, double* dw) {
            Numbers dx(g.size());
            for (Size r = 0; r < inverse.size(); ++r) {
              double sum = 0, dot = 0;
              for (Size c = 0; c < n; ++c) {
                const Size i = r * n + c;
                dw[c] += g[i] * normal[i];
                dw[n + c] += g[i];
                sum += gamma[c] * g[i] / static_cast<double>(n);
                dot += gamma[c] * g[i] * normal[i] / static_cast<double>(n);
              }
              for (Size c = 0; c < n; ++c) {
                const Size i = r * n + c;
                dx[i] = inverse[r] * (gamma[c] * g[i] - sum - normal[i] * dot);
              }
            }
            return dx;
          }};
}

Reference reference_of(const models::Gelu&, const SequenceCase& given) {
  Numbers y = given.x;
  for (double& x : y) x *= distribution(x);
  return {y, [x = given.x](const Numbers& g, double*) {
            Numbers dx(g.size());
            for (Size i = 0; i < g.size(); ++i)
              dx[i] = g[i] * (distribution(x[i]) + x[i] * density(x[i]));
            return dx;
          }};
}

Reference reference_of(const models::CausalSelfAttention& layer, const SequenceCase& given) {
  Numbers y(given.x.size() / 3, 0.0);
  each_head(layer, given.in, given.samples, [&](const Head& h) { attend(h, given.x, y); });
  return {y, [=, in = given.in, samples = given.samples, x = given.x](const Numbers& g, double*) {
            Numbers dx(x.size(), 0.0);
            each_head(layer, in, samples, [&](const Head& h) { attend_back(h, x, g, dx); });
            return dx;
          }};
}

}  // namespace unlatch::testing
