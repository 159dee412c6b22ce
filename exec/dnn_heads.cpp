#include "exec/dnn_heads.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "exec/dnn_op.h"
#include "models/random.h"

namespace unlatch::exec {
namespace {

bool is_image(const models::SampleShape& shape) { return shape.height * shape.width > 1; }

/// A network on a stage's output (or on the error), as a model of its own.
models::Model network(const models::SampleShape& input, int classes,
                      std::vector<models::Layer> layers) {
  return {.name = "local head", .input = input, .classes = classes, .layers = std::move(layers)};
}

models::Layer linear(std::int64_t out, bool bias) {
  return {.name = "head", .kind = models::Linear{static_cast<int>(out), bias}};
}

models::Model classifier(const models::SampleShape& input, int classes) {
  std::vector<models::Layer> layers;
  if (const int half = std::min(input.height, input.width) / 2; half > 1) {
    layers.push_back({.name = "head pool", .kind = models::MaxPool{half, half}});
  }
  layers.push_back(linear(classes, true));
  return network(input, classes, std::move(layers));
}

constexpr int taps = 3;  ///< of a synthesiser's convolution, in each direction

/// A map of all numbers by all numbers would have too many weights.
bool is_large_image(const models::SampleShape& shape) {
  constexpr int most_for_a_matrix = 1024;
  return is_image(shape) && shape.elements() > most_for_a_matrix;
}

models::Model map_of_outputs(const models::SampleShape& shape, int classes) {
  if (!is_large_image(shape)) return network(shape, classes, {linear(shape.elements(), false)});
  const models::Convolution convolution{.out_channels = shape.channels,
                                        .kernel = taps,
                                        .stride = 1,
                                        .padding = taps / 2,
                                        .bias = false};
  return network(shape, classes, {{.name = "head", .kind = convolution}});
}

models::Model map_of_errors(int classes, const models::SampleShape& output) {
  return network({classes, 1, 1}, classes, {linear(output.elements(), false)});
}

std::vector<double> as_doubles(const Tensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

class Classifier : public LocalHead {
 public:
  Classifier(const Place& output, int classes, const DnnRun& run)
      : net_(make_dnn_stage_on(output, classifier(output.shape, classes), run)),
        weights_(net_->initial_weights()),
        gradient_(net_->zero_gradient()) {}

  Tensor gradient(const Tensor& output, const Tensor& target, double scale,
                  Workspace& workspace) override {
    std::unique_ptr<StageModule::Tape> tape;
    const Tensor logits =
        net_->forward(weights_, output, StageModule::Pass::normal, &tape, workspace);
    Tensor error;
    net_->loss(logits, target, scale, &error, workspace);
    return net_->backward(weights_, *tape, error, 1, true, gradient_, workspace);
  }
  void learn(const Tensor&, const Tensor&, const Tensor&, Workspace&) override {}
  void update(double rate) override { net_->update(weights_, gradient_, rate); }
  std::vector<double> parameters() const override { return as_doubles(weights_); }
  Bytes bytes() const override {
    return {weights_.bytes(), gradient_.bytes(), net_->optimizer_bytes()};
  }

 private:
  std::unique_ptr<DnnStageModule> net_;
  Tensor weights_;
  Tensor gradient_;
};

/// Works in the layout of the stage's output, in which every sample's numbers lie together.
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
        row_(output.layout.get_size() / sizeof(float) / static_cast<std::size_t>(samples)),
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
    const double samples = output_.samples;
    const double rate = rate_ / energy(output);
    const auto factor = static_cast<float>(2 / samples);
    std::ranges::transform(slope.as<float>(), gradient.as<float>(), slope.data<float>(),
                           [factor](float p, float g) { return factor * (p - g); });
    for_each_sample(slope, target, [rate](float slope_of_one, float& constant) {
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

 private:
  /// Of its result, which a linear layer gives as a row a sample.
  dnnl::memory::desc layout_of_map() const {
    return is_large_image(output_.shape) ? net_->output().layout
                                         : plain_layout(output_.samples, output_.shape);
  }
  /// In a tensor of its own.
  Tensor predict(const Tensor& output, const Tensor& target,
                 std::unique_ptr<StageModule::Tape>* tape, Workspace& workspace) {
    Tensor map = net_->forward(weights_, output, StageModule::Pass::normal, tape, workspace);
    Call call(output_.engine, pool_, workspace);
    Tensor prediction = from_net_.moved(std::move(map), call);
    for_each_sample(prediction, target, [](float& p, float& constant) { p += constant; });
    return prediction;
  }

  /// Calls f(number of the tensor, the constant that belongs to it).
  template <class F>
  void for_each_sample(const Tensor& tensor, const Tensor& target, F f) {
    for (std::size_t n = 0; n < static_cast<std::size_t>(output_.samples); ++n) {
      const auto label = static_cast<std::size_t>(target.data<std::int32_t>()[n]);
      float* constants = constants_.data() + (conditional_ ? label * row_ : 0);
      float* values = tensor.data<float>() + n * row_;
      for (std::size_t j = 0; j < row_; ++j) f(values[j], constants[j]);
    }
  }

  /// Mean over the samples of the squares of all that enters one prediction, the 1 before the
  /// constant included; for a convolution at most so much.
  double energy(const Tensor& output) const {
    const std::span<const float> values = output.as<float>();
    const double squares = std::transform_reduce(values.begin(), values.end(), 0.0, std::plus<>{},
                                                 [](double x) { return x * x; });
    return 1 + squares * (is_large_image(output_.shape) ? taps * taps : 1) / output_.samples;
  }

  Place output_;
  double rate_;
  std::unique_ptr<DnnStageModule> net_;
  Tensor weights_;
  Tensor gradient_;
  Reorder from_net_;
  Reorder to_net_;
  std::size_t row_;  ///< floats of one sample
  bool conditional_;
  std::vector<float> constants_;  ///< [1 or classes, row]
  BufferPool pool_;
};

class Feedback : public LocalHead {
 public:
  Feedback(const Place& output, const Place& error, const DnnRun& run)
      : output_(output),
        net_(make_dnn_stage_on(error, map_of_errors(error.shape.channels, output.shape), run)),
        weights_(net_->initial_weights()),
        from_rows_(output.engine, plain_layout(output.samples, output.shape), output.layout) {
    // From +-1/sqrt(classes), a linear layer's, to a gradient about as large as the error.
    const double elements = static_cast<double>(output.shape.elements());
    const auto factor = static_cast<float>(std::sqrt(error.shape.channels / elements));
    for (float& b : weights_.as<float>()) b *= factor;
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
  constexpr std::uint64_t stream = 0x6865616473;  // apart from those of the model's layers
  const Place& last = stages.back()->output();
  const int classes = last.shape.channels;
  const OneMathsThread one_thread;
  for (std::size_t k = 0; k + 1 < stages.size(); ++k) {
    const Place& output = stages[k]->output();
    DnnRun mine = run;
    mine.seed = models::derived_key(models::derived_key(run.seed, stream), k);
    if (local.source == GradientSource::local_head) {
      heads.push_back(std::make_unique<Classifier>(output, classes, mine));
    } else if (local.source == GradientSource::synthesiser) {
      heads.push_back(std::make_unique<Synthesiser>(output, classes, local, output.samples));
    } else {
      heads.push_back(std::make_unique<Feedback>(output, last, mine));
    }
  }
  heads.push_back(nullptr);
  return heads;
}

HeadSize head_size(const LocalGradients& local, const models::SampleShape& output, int classes) {
  switch (local.source) {
    case GradientSource::local_head: {
      const std::int64_t floats = models::parameter_count(classifier(output, classes));
      return {floats, floats};
    }
    case GradientSource::synthesiser: {
      const std::int64_t floats = models::parameter_count(map_of_outputs(output, classes));
      return {floats + output.elements() * (local.conditional ? classes : 1), floats};
    }
    case GradientSource::feedback:
      return {models::parameter_count(map_of_errors(classes, output)), 0};
    case GradientSource::next_stage:
      break;
  }
  return {};
}

}  // namespace unlatch::exec
