// ReLU by hand: memory-bound either way, and oneDNN's backward takes twice the time (AVX2).
// Works on whole blocks: channels that only fill a block up hold zeros and keep them.
#include <utility>

#include "exec/dnn_op.h"

namespace unlatch::exec {
namespace {

// In both loops element i only meets element i, so that they may run in place; the pragma says so
// to the compiler, which would otherwise not vectorise the case of equal pointers.

/// A NaN stays one, so that a diverged training shows.
void relu(const float* x, float* y, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? 0.0F : x[i];
}

void relu_gradient(const float* y, const float* g, float* out, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    const float passed = g[i];  // read always: a branch on random signs costs 20 ns
    out[i] = y[i] > 0 ? passed : 0.0F;
  }
}

class Relu : public Op {
 public:
  explicit Relu(const Place& input) : Op(input), size_(input.layout.get_size()) {}

  Flow forward(const Flat&, Flow input, Kept* kept, Call& call) const override {
    const Tensor result = input.ours ? input.tensor : call.pool.take(size_);
    relu(input.tensor.data<float>(), result.data<float>(), size_ / sizeof(float));
    if (kept == nullptr) return {result, true};
    kept->tensors = {result};
    return {result, false};
  }

  Flow backward_input(const Flat&, Kept& kept, Flow gradient, bool wants_input,
                      Call& call) const override {
    const Kept done = std::exchange(kept, {});
    if (!wants_input) return {};
    const Tensor result = gradient.ours ? gradient.tensor : call.pool.take(size_);
    relu_gradient(done.tensors[0].data<float>(), gradient.tensor.data<float>(),
                  result.data<float>(), size_ / sizeof(float));
    return {result, true};
  }

 private:
  std::size_t size_;
};

}  // namespace

std::unique_ptr<Op> make_relu(const Place& input) { return std::make_unique<Relu>(input); }

}  // namespace unlatch::exec
