#include "exec/scalar_heads.h"

#include "exec/optimizer_state.h"

#include "models/random.h"

namespace unlatch::exec {
namespace {

Tensor scalar(BufferPool& pool, double value) {
  Tensor tensor = pool.take(sizeof(double));
  *tensor.data<double>() = value;
  return tensor;
}

}  // namespace

Tensor ScalarHead::gradient(const Tensor& output, const Tensor& target, double scale, Workspace&) {
  const double h = *output.data<double>();
  const double g = (weight_[0] * h - *target.data<double>()) * scale;
  sum_[0] += g * h;
  return scalar(pool_, g * weight_[0]);
}

void ScalarHead::update(double rate) {
  optimizer_.step(weight_, sum_, rate);
  sum_[0] = 0;
}

void ScalarHead::visit_state(StateVisitor& visitor) {
  visitor.reals("weight", std::span(weight_));
  visitor.reals("gradient", std::span(sum_));
  visit_optimizer(visitor, optimizer_);
}

void ScalarSynthesiser::visit_state(StateVisitor& visitor) {
  visitor.reals("p", std::span(&p_, 1));
  visitor.reals("q", std::span(&q_, 1));
  visitor.reals("r", std::span(&r_, 1));
}

double ScalarSynthesiser::predict(double h, double y) const {
  return conditional_ ? p_ * h + q_ + r_ * y : p_ * h + q_;
}

double ScalarSynthesiser::label_in(const Tensor& target) const {
  return conditional_ ? *target.data<double>() : 0;
}

Tensor ScalarSynthesiser::gradient(const Tensor& output, const Tensor& target, double, Workspace&) {
  return scalar(pool_, predict(*output.data<double>(), label_in(target)));
}

void ScalarSynthesiser::learn(const Tensor& output, const Tensor& target, const Tensor& gradient,
                              Workspace&) {
  const double h = *output.data<double>();
  const double y = label_in(target);
  const double slope = 2 * (predict(h, y) - *gradient.data<double>());
  p_ -= rate_ * (slope * h);
  q_ -= rate_ * slope;
  if (conditional_) r_ -= rate_ * (slope * y);
}

std::vector<double> ScalarSynthesiser::parameters() const {
  return conditional_ ? std::vector{p_, q_, r_} : std::vector{p_, q_};
}

Tensor ScalarFeedback::gradient(const Tensor& error, const Tensor&, double, Workspace&) {
  return scalar(pool_, b_ * *error.data<double>());
}

namespace {

std::unique_ptr<LocalHead> scalar_head(const LocalGradients& local, Stage model_stage,
                                       const models::OptimizerSpec& optimizer) {
  switch (local.source) {
    case GradientSource::local_head:
      return std::make_unique<ScalarHead>(optimizer);
    case GradientSource::synthesiser:
      return std::make_unique<ScalarSynthesiser>(local.conditional, local.rate);
    case GradientSource::feedback:
      return std::make_unique<ScalarFeedback>(2 * models::random_uniform(0, model_stage.value) - 1);
    case GradientSource::next_stage:
      break;
  }
  return nullptr;
}

}  // namespace

std::vector<std::unique_ptr<LocalHead>> scalar_heads(const TaskGraph& graph,
                                                     const models::OptimizerSpec& optimizer) {
  const LocalGradients& local = graph.learning().local_gradients;
  const Shape& shape = graph.shape();
  std::vector<std::unique_ptr<LocalHead>> heads;
  if (local.source == GradientSource::next_stage) return heads;
  for (const Stage k : up_to<Stage>(shape.stages)) {
    heads.push_back(shape.is_last(k) ? nullptr
                                     : scalar_head(local, shape.model_stage(k), optimizer));
  }
  return heads;
}

}  // namespace unlatch::exec
