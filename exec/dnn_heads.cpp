#include "exec/dnn_heads.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "exec/classifier_head.h"
#include "exec/dnn_op.h"
#include "exec/head_networks.h"

namespace unlatch::exec {
namespace {

std::vector<double> as_doubles(const Tensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

class Classifier : public ClassifierHead {
 public:
  using ClassifierHead::ClassifierHead;
  std::vector<double> parameters() const override { return as_doubles(weights()); }
};

int classes_of(const Place& logits) { return static_cast<int>(logits.shape.features()); }

/// Works in the layout of the stage's output, in which the numbers of every sample, or token, lie
/// together.
class Synthesiser : public LocalHead {
 public:
  Synthesiser(const Place& output, int classes, const LocalGradients& local, int samples)
      : output_(output),
        rate_(local.rate),
        net_(make_dnn_stage_on(output, map_of_outputs(output.shape, classes),
                               {.micro_batch_size = samples})),
        weights_(net_->zero_gradient()),
        gradient_(net_->zero_gradient()),
        from_net_(output.engine, layout_of_map(), output.layout),
        to_net_(output.engine, output.layout, layout_of_map()),
        rows_(samples * output.shape.rows()),
        row_(output.layout.get_size() / sizeof(float) / static_cast<std::size_t>(rows_)),
        conditional_(local.conditional),
        constants_(row_ * static_cast<std::size_t>(conditional_ ? classes : 1)) {}

  Tensor gradient(const Tensor& output, const Tensor& target, double,
                  Workspace& workspace) override {
    return predict(output, target, nullptr, workspace);
  }

  void learn(const Tensor& output, const Tensor& target, const Tensor& gradient,
             Workspace& workspace) override {
    std::unique_ptr<StageModule::Tape> tape;
    Tensor slope = predict(output, target, &tape, workspace);
    const double rate = rate_ / energy(output);
    const auto factor = static_cast<float>(2.0 / rows_);
    std::ranges::transform(slope.as<float>(), gradient.as<float>(), slope.data<float>(),
                           [factor](float p, float g) { return factor * (p - g); });
    for_each_row(slope, target, [rate](float slope_of_one, float& constant) {
      constant -= static_cast<float>(rate * slope_of_one);
    });
    Call call(output_.engine, pool_, workspace);
    net_->backward(weights_, *tape, to_net_.moved(std::move(slope), call), 1, false, gradient_,
                   workspace);
    net_->update(weights_, gradient_, rate);
  }

  void update(double) override {}

  std::vector<double> parameters() const override {
    std::vector<double> all = as_doubles(weights_);
    all.insert(all.end(), constants_.begin(), constants_.end());
    return all;
  }
  Bytes bytes() const override {
    return {.weights = weights_.bytes() + constants_.size() * sizeof(float),
            .gradient = gradient_.bytes()};
  }
  /// The map's gradient is zero between tasks, and it learns by plain steps.
  void visit_state(StateVisitor& visitor) override {
    visitor.parameters("map", weights_);
    visitor.reals("constants", std::span(constants_));
  }

 private:
  /// Of its result, which a linear layer gives as a row a sample.
  dnnl::memory::desc layout_of_map() const {
    return is_mapped_by_convolution(output_.shape) ? net_->output().layout
                                                   : plain_layout(output_.samples, output_.shape);
  }
  /// In a tensor of its own.
  Tensor predict(const Tensor& output, const Tensor& target,
                 std::unique_ptr<StageModule::Tape>* tape, Workspace& workspace) {
    Tensor map = net_->forward(weights_, output, StageModule::Pass::normal, tape, workspace);
    Call call(output_.engine, pool_, workspace);
    Tensor prediction = from_net_.moved(std::move(map), call);
    for_each_row(prediction, target, [](float& p, float& constant) { p += constant; });
    return prediction;
  }

  /// Calls f(number of the tensor, the constant that belongs to it).
  template <class F>
  void for_each_row(const Tensor& tensor, const Tensor& target, F f) {
    for (std::size_t n = 0; n < static_cast<std::size_t>(rows_); ++n) {
      float* constants = constants_.data();
      if (conditional_) {
        constants += static_cast<std::size_t>(target.data<std::int32_t>()[n]) * row_;
      }
      float* values = tensor.data<float>() + n * row_;
      for (std::size_t j = 0; j < row_; ++j) f(values[j], constants[j]);
    }
  }

  /// Mean over the rows of the squares of all that enters one prediction, the 1 before the
  /// constant included; for a convolution at most so much.
  double energy(const Tensor& output) const {
    const std::span<const float> values = output.as<float>();
    const double squares = std::transform_reduce(values.begin(), values.end(), 0.0, std::plus<>{},
                                                 [](double x) { return x * x; });
    return 1 + squares * meetings_with_weights(output_.shape) / rows_;
  }

  Place output_;
  double rate_;
  std::unique_ptr<DnnStageModule> net_;
  Tensor weights_;
  Tensor gradient_;
  Reorder from_net_;
  Reorder to_net_;
  int rows_;         ///< samples, or their tokens
  std::size_t row_;  ///< floats of one
  bool conditional_;
  std::vector<float> constants_;  ///< [1 or classes, row]
  BufferPool pool_;
};

class Feedback : public LocalHead {
 public:
  Feedback(const Place& output, const Place& error, std::uint64_t seed)
      : output_(output),
        net_(make_dnn_stage_on(error, map_of_errors(classes_of(error), output.shape),
                               {.micro_batch_size = output.samples})),
        weights_(net_->zero_gradient()),
        from_rows_(output.engine, plain_layout(output.samples, output.shape), output.layout) {
    std::ranges::copy(feedback_weights(classes_of(error), output.shape, seed),
                      weights_.data<float>());
  }

  Tensor gradient(const Tensor& error, const Tensor&, double, Workspace& workspace) override {
    Tensor rows = net_->forward(weights_, error, StageModule::Pass::replay, nullptr, workspace);
    Call call(output_.engine, pool_, workspace);
    return from_rows_.moved(std::move(rows), call);
  }
  void learn(const Tensor&, const Tensor&, const Tensor&, Workspace&) override {}
  void update(double) override {}
  std::vector<double> parameters() const override { return as_doubles(weights_); }
  Bytes bytes() const override { return {.weights = weights_.bytes()}; }
  void visit_state(StateVisitor&) override {}  // the seed decides its weights

 private:
  Place output_;
  std::unique_ptr<DnnStageModule> net_;
  Tensor weights_;
  Reorder from_rows_;
  BufferPool pool_;
};

}  // namespace

std::vector<std::unique_ptr<LocalHead>> make_dnn_heads(
    const LocalGradients& local, std::span<const std::unique_ptr<DnnStageModule>> stages,
    const DnnRun& run) {
  std::vector<std::unique_ptr<LocalHead>> heads;
  if (local.source == GradientSource::next_stage) return heads;
  const Place& last = stages.back()->output();
  const int classes = classes_of(last);
  const OneMathsThread one_thread;
  for (std::size_t k = 0; k + 1 < stages.size(); ++k) {
    const Place& output = stages[k]->output();
    DnnRun mine = run;
    mine.seed = seed_of_head(run.seed, k);
    if (local.source == GradientSource::local_head) {
      heads.push_back(std::make_unique<Classifier>(
          make_dnn_stage_on(output, classifier(output.shape, classes), mine)));
    } else if (local.source == GradientSource::synthesiser) {
      heads.push_back(std::make_unique<Synthesiser>(output, classes, local, output.samples));
    } else {
      heads.push_back(std::make_unique<Feedback>(output, last, mine.seed));
    }
  }
  heads.push_back(nullptr);
  return heads;
}

}  // namespace unlatch::exec
