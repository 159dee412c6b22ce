#include "exec/scalar_chain.h"

#include "exec/optimizer_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "schedules/error.h"

namespace unlatch::exec {
namespace {

/// Input and activation of each weight, as F saw them. I turns the activations into
/// the gradients of their arguments, which W multiplies with the inputs.
struct ScalarTape : StageModule::Tape {
  std::vector<double> h;
  std::vector<double> a;
  std::vector<double> e;

  std::size_t bytes() const override { return (h.size() + a.size() + e.size()) * sizeof(double); }
  void visit_state(StateVisitor& visitor) override {
    visitor.reals_of_any_size("h", h);
    visitor.reals_of_any_size("a", a);
    visitor.reals_of_any_size("e", e);
  }
};

Tensor scalar(BufferPool& pool, double value) {
  Tensor tensor = pool.take(sizeof(double));
  *tensor.data<double>() = value;
  return tensor;
}

Tensor doubles(BufferPool& pool, std::span<const double> values) {
  Tensor tensor = pool.take(values.size_bytes());
  std::ranges::copy(values, tensor.data<double>());
  return tensor;
}

/// Each weight is a layer of its own.
std::vector<models::ParameterTensor> one_tensor_each(std::size_t weights) {
  std::vector<models::ParameterTensor> tensors;
  for (std::size_t j = 0; j < weights; ++j) tensors.push_back({j, 1, true});
  return tensors;
}

}  // namespace

ScalarChainModule::ScalarChainModule(std::vector<double> weights, Activation activation,
                                     const models::OptimizerSpec& optimizer)
    : initial_(std::move(weights)),
      activation_(activation),
      optimizer_(optimizer, one_tensor_each(initial_.size())) {}

Tensor ScalarChainModule::initial_weights() const { return doubles(pool_, initial_); }

Tensor ScalarChainModule::zero_gradient() const {
  return pool_.take_zeroed(initial_.size() * sizeof(double));
}

void ScalarChainModule::visit_state(StateVisitor& visitor) { visit_optimizer(visitor, optimizer_); }

std::unique_ptr<StageModule::Tape> ScalarChainModule::empty_tape() const {
  return std::make_unique<ScalarTape>();
}

Tensor ScalarChainModule::forward(const Tensor& weights, const Tensor& input, Pass,
                                  std::unique_ptr<Tape>* tape, Workspace&) {
  auto kept = std::make_unique<ScalarTape>();
  double h = *input.data<double>();
  for (const double w : weights.as<double>()) {
    const double a = activation_ == Activation::tanh ? std::tanh(w * h) : w * h;
    kept->h.push_back(h);
    kept->a.push_back(a);
    h = a;
  }
  if (tape != nullptr) *tape = std::move(kept);
  return scalar(pool_, h);
}

Tensor ScalarChainModule::backward(const Tensor& weights, const Tape& tape, const Tensor& gradient,
                                   double scale, bool wants_input_gradient, Tensor& weight_gradient,
                                   Workspace& workspace) {
  ScalarTape part = static_cast<const ScalarTape&>(tape);
  Tensor back = backward_input(weights, part, gradient, scale, wants_input_gradient, workspace);
  backward_weight(part, weight_gradient, workspace);
  return back;
}

Tensor ScalarChainModule::backward_input(const Tensor& weights, Tape& tape, const Tensor& gradient,
                                         double scale, bool wants_input_gradient, Workspace&) {
  auto& kept = static_cast<ScalarTape&>(tape);
  const std::span<const double> w = weights.as<double>();
  kept.e.resize(w.size());
  double g = scale * *gradient.data<double>();
  for (std::size_t j = w.size(); j-- > 0;) {
    const double a = kept.a[j];
    kept.e[j] = g * (activation_ == Activation::tanh ? 1 - a * a : 1);
    g = kept.e[j] * w[j];
  }
  kept.a = {};
  return wants_input_gradient ? scalar(pool_, g) : Tensor();
}

void ScalarChainModule::backward_weight(const Tape& tape, Tensor& weight_gradient, Workspace&) {
  const auto& kept = static_cast<const ScalarTape&>(tape);
  const std::span<double> sums = weight_gradient.as<double>();
  for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += kept.e[j] * kept.h[j];
}

Loss ScalarChainModule::loss(const Tensor& output, const Tensor& target, double scale,
                             Tensor* gradient, Workspace&) {
  const double difference = *output.data<double>() - *target.data<double>();
  if (gradient != nullptr) *gradient = scalar(pool_, difference * scale);
  return {.loss = 0.5 * difference * difference, .correct = 0, .samples = 1};
}

Tensor ScalarChainModule::copy_of(const Tensor& weights) { return pool_.copy_of(weights); }

void ScalarChainModule::all_reduce(std::span<Tensor* const> tensors, double factor) {
  all_reduce_as<double>(tensors, factor);
}

Tensor ScalarChainModule::predicted(const Tensor& weights, int updates, double rate) {
  const Tensor moved = pool_.copy_of(weights);
  optimizer_.coast(moved.as<double>(), updates, rate);
  return moved;
}

void ScalarChainModule::update(Tensor& weights, Tensor& gradient, double rate) {
  optimizer_.step(weights.as<double>(), gradient.as<double>(), rate);
  std::ranges::fill(gradient.as<double>(), 0.0);
}

std::vector<std::unique_ptr<StageModule>> scalar_chain_stages(
    std::span<const double> weights, std::span<const int> sizes, Activation activation,
    const models::OptimizerSpec& optimizer) {
  std::vector<std::unique_ptr<StageModule>> stages;
  std::size_t first = 0;
  for (const int size : sizes) {
    require(size > 0 && first + static_cast<std::size_t>(size) <= weights.size(),
            "scalar chain: {} stages do not fit on {} weights; give every stage at least one",
            sizes.size(), weights.size());
    const auto slice = weights.subspan(first, static_cast<std::size_t>(size));
    stages.push_back(std::make_unique<ScalarChainModule>(
        std::vector<double>(slice.begin(), slice.end()), activation, optimizer));
    first += static_cast<std::size_t>(size);
  }
  require(first == weights.size(), "scalar chain: the stages hold {} of {} weights", first,
          weights.size());
  return stages;
}

ScalarFeed::ScalarFeed(std::vector<double> x, std::vector<double> y)
    : x_(std::move(x)), y_(std::move(y)) {
  require(x_.size() == y_.size(),
          "scalar chain: {} inputs and {} targets; give one of each a micro-batch", x_.size(),
          y_.size());
}

Tensor ScalarFeed::input(MicroBatch i) { return at(x_, i); }
Tensor ScalarFeed::target(MicroBatch i) { return at(y_, i); }

Tensor ScalarFeed::at(const std::vector<double>& values, MicroBatch i) {
  require(i.value >= 0 && static_cast<std::size_t>(i.value) < values.size(),
          "scalar chain: micro-batch {} was asked for, the lists hold {}", i.value, values.size());
  return scalar(pool_, values[static_cast<std::size_t>(i.value)]);
}

}  // namespace unlatch::exec
