// The local heads of oneDNN stages against naive loops in double, on outputs in every layout.
#include "exec/dnn_heads.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "exec/head_networks.h"
#include "tests/exec/dnn_support.h"
#include "tests/exec/reference_network.h"

namespace unlatch::exec {
namespace {

using models::Layer;
using models::SampleShape;
using testing::Numbers;

constexpr int samples = 5;
constexpr int classes = 4;
constexpr std::uint64_t seed = 11;

/// A first stage and the shape of what it hands over; the last stage is only there to give classes.
struct Case {
  std::string name;
  SampleShape input;
  std::vector<Layer> layers;
};

std::vector<Case> cases() {
  const auto layer = [](auto kind) { return Layer{.name = "layer", .kind = kind}; };
  return {{"vector", {3, 2, 2}, {layer(models::Linear{.out_features = 6})}},
          {"plain image", {3, 8, 8}, {layer(models::MaxPool{2, 2})}},
          {"blocked image", {3, 8, 8}, {layer(models::Convolution{10, 3, 1, 1, true})}},
          {"odd blocked image", {2, 7, 5}, {layer(models::Convolution{16, 3, 1, 1, true})}},
          {"large plain image", {5, 32, 32}, {layer(models::MaxPool{2, 2})}},
          {"large blocked image", {1, 12, 11}, {layer(models::Convolution{10, 3, 1, 1, true})}},
          {"one pixel", {2, 3, 3}, {layer(models::Convolution{9, 3, 1, 0, true})}}};
}

Numbers doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

/// The first stage, its head, and the same stage in double.
class Stage0 {
 public:
  Stage0(const Case& c, const LocalGradients& local, const models::OptimizerSpec& optimizer = {})
      : layers(c.layers) {
    models::Model model{.name = c.name, .input = c.input, .classes = classes, .layers = c.layers};
    model.layers.push_back({.name = "last", .kind = models::Linear{.out_features = classes}});
    shape = model.shapes()[layers.size()];
    const DnnRun run{.micro_batch_size = samples, .optimizer = optimizer, .seed = seed};
    stages = make_dnn_stages(model, ranges_of({static_cast<int>(layers.size()), 1}), run);
    heads = make_dnn_heads(local, stages, run);
    weights = stages[0]->initial_weights();
    input = tensor_of(pool, random_floats(c.input.elements() * samples, 3));
    labels = tensor_of(pool, std::vector<std::int32_t>{0, 3, 1, 3, 2});
    output = stages[0]->forward(weights, input, StageModule::Pass::normal, &tape, workspace);
    plain = testing::reference(layers, c.input, samples, w().data(), doubles(input.as<float>()));
  }

  Numbers w() const { return doubles(weights.as<float>()); }
  LocalHead& head() { return *heads[0]; }

  /// Of the stage's weights and input, from a gradient of its output in the stage's own layout.
  Numbers back(const Tensor& gradient) {
    Tensor sum = stages[0]->zero_gradient();
    const Tensor of_input = stages[0]->backward(weights, *tape, gradient, 1, true, sum, workspace);
    Numbers all = doubles(sum.as<float>());
    const Numbers more = doubles(of_input.as<float>());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// The same in double, from plain rows.
  Numbers plain_back(const Numbers& gradient) {
    Numbers all(w().size(), 0.0);
    const Numbers more = plain.backward(gradient, all.data());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::vector<Layer> layers;
  SampleShape shape;
  BufferPool pool;
  Workspace workspace;
  std::vector<std::unique_ptr<DnnStageModule>> stages;
  std::vector<std::unique_ptr<LocalHead>> heads;
  Tensor weights, input, labels, output;
  std::unique_ptr<StageModule::Tape> tape;
  testing::Reference plain;
};

void expect_near(const Numbers& found, const Numbers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  for (std::size_t j = 0; j < found.size(); ++j) {
    ASSERT_NEAR(found[j], expected[j], 2e-5 * largest) << j;
  }
}

/// Mean cross entropy of softmax, and its gradient by the logits.
double cross_entropy(const Numbers& logits, std::span<const std::int32_t> labels, double scale,
                     Numbers& gradient) {
  double loss = 0;
  gradient.resize(logits.size());
  for (std::size_t n = 0; n < labels.size(); ++n) {
    double sum = 0;
    for (int c = 0; c < classes; ++c) sum += std::exp(logits[n * classes + c]);
    for (int c = 0; c < classes; ++c) {
      const double p = std::exp(logits[n * classes + c]) / sum;
      gradient[n * classes + c] = scale * (p - (c == labels[n])) / samples;
    }
    loss -= std::log(std::exp(logits[n * classes + labels[n]]) / sum) / samples;
  }
  return loss;
}

/// The layers of the auxiliary classifier, from its description.
std::vector<Layer> classifier_of(const SampleShape& shape) {
  std::vector<Layer> layers;
  const int half = std::min(shape.height, shape.width) / 2;
  if (half > 1) layers.push_back({.name = "pool", .kind = models::MaxPool{half, half}});
  layers.push_back({.name = "linear", .kind = models::Linear{.out_features = classes}});
  return layers;
}

TEST(DnnHeads, OfDglGiveTheGradientOfTheirOwnLossAndStepDownIt) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto momentum = models::OptimizerSpec::parse("momentum:momentum=0.5");
    Stage0 stage(c, {.source = GradientSource::local_head}, momentum);
    Numbers w = stage.head().parameters();
    Numbers velocity(w.size(), 0.0);
    const auto layers = classifier_of(stage.shape);
    for (int step = 0; step < 3; ++step) {
      const double scale = 0.5;
      const Tensor found =
          stage.head().gradient(stage.output, stage.labels, scale, stage.workspace);
      const auto net =
          testing::reference(layers, stage.shape, samples, w.data(), stage.plain.output);
      Numbers error;
      cross_entropy(net.output, stage.labels.as<std::int32_t>(), scale, error);
      Numbers sum(w.size(), 0.0);
      const Numbers expected = net.backward(error, sum.data());
      expect_near(stage.back(found), stage.plain_back(expected));
      stage.head().update(0.2);
      for (std::size_t j = 0; j < w.size(); ++j) {
        velocity[j] = 0.5 * velocity[j] + sum[j];
        w[j] -= 0.2 * velocity[j];
      }
      expect_near(stage.head().parameters(), w);
    }
  }
}

/// The synthesiser in double, all numbers in plain rows.
class PlainSynthesiser {
 public:
  PlainSynthesiser(const SampleShape& shape, bool conditional)
      : shape_(shape),
        conditional_(conditional),
        image_(shape.height * shape.width > 1 && shape.elements() > 1024),
        w_(static_cast<std::size_t>(image_ ? 9 * shape.channels * shape.channels
                                           : shape.elements() * shape.elements())),
        constants_(shape.elements() * classes) {}

  Numbers predict(const Numbers& output, std::span<const std::int32_t> labels) const {
    Numbers p = net(output).output;
    for (std::size_t j = 0; j < p.size(); ++j) p[j] += constants_[at(j, labels)];
    return p;
  }

  void learn(const Numbers& output, std::span<const std::int32_t> labels, const Numbers& gradient,
             double rate) {
    double squares = 0;
    for (const double h : output) squares += h * h;
    const double step = rate / (1 + (image_ ? 9 : 1) * squares / samples);
    Numbers slope = predict(output, labels);
    for (std::size_t j = 0; j < slope.size(); ++j)
      slope[j] = 2 * (slope[j] - gradient[j]) / samples;
    Numbers sum(w_.size(), 0.0);
    net(output).backward(slope, sum.data());
    for (std::size_t j = 0; j < w_.size(); ++j) w_[j] -= step * sum[j];
    for (std::size_t j = 0; j < slope.size(); ++j) constants_[at(j, labels)] -= step * slope[j];
  }

 private:
  testing::Reference net(const Numbers& output) const {
    const int features = static_cast<int>(shape_.elements());
    const Layer layer =
        image_ ? Layer{.name = "map", .kind = models::Convolution{shape_.channels, 3, 1, 1, false}}
               : Layer{.name = "map", .kind = models::Linear{features, false}};
    return testing::reference(layer, shape_, samples, w_.data(), output);
  }
  /// The constant of number j of all samples.
  std::size_t at(std::size_t j, std::span<const std::int32_t> labels) const {
    const auto row = static_cast<std::size_t>(shape_.elements());
    return (conditional_ ? labels[j / row] : 0) * row + j % row;
  }

  SampleShape shape_;
  bool conditional_;
  bool image_;
  Numbers w_;
  Numbers constants_;
};

TEST(DnnHeads, OfDniFirstPredictNothingAndThenWhatTheyLearnt) {
  for (const Case& c : cases()) {
    for (const bool conditional : {false, true}) {
      SCOPED_TRACE(fmt::format("{} conditional={}", c.name, conditional));
      const double rate = 0.6;
      Stage0 stage(c, {GradientSource::synthesiser, conditional, rate});
      PlainSynthesiser plain(stage.shape, conditional);
      const auto labels = stage.labels.as<std::int32_t>();
      const auto predict = [&] {
        return stage.head().gradient(stage.output, stage.labels, 1, stage.workspace);
      };
      for (const float p : predict().as<float>()) EXPECT_EQ(p, 0.0F);
      for (const double p : stage.head().parameters()) EXPECT_EQ(p, 0.0);
      // A gradient to learn, in both layouts: the output times a number that changes.
      for (const double factor : {0.3, -0.7, 0.2}) {
        const Tensor target = stage.pool.copy_of(stage.output);
        for (float& g : target.as<float>()) g *= static_cast<float>(factor);
        Numbers plain_target = stage.plain.output;
        for (double& g : plain_target) g *= factor;
        stage.head().learn(stage.output, stage.labels, target, stage.workspace);
        plain.learn(stage.plain.output, labels, plain_target, rate);
        expect_near(stage.back(predict()),
                    stage.plain_back(plain.predict(stage.plain.output, labels)));
      }
    }
  }
}

double distance(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::size_t j = 0; j < a.as<float>().size(); ++j) {
    sum += std::pow(double{a.as<float>()[j]} - b.as<float>()[j], 2);
  }
  return std::sqrt(sum);
}

TEST(DnnHeads, OfDniComeCloserToAFixedGradientWithEveryStep) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Stage0 stage(c, {GradientSource::synthesiser, true, 1.0});
    const Tensor target = stage.pool.copy_of(stage.output);
    const auto predict = [&] {
      return stage.head().gradient(stage.output, stage.labels, 1, stage.workspace);
    };
    double before = distance(predict(), target);
    for (int step = 0; step < 20; ++step) {
      stage.head().learn(stage.output, stage.labels, target, stage.workspace);
      const double after = distance(predict(), target);
      EXPECT_LT(after, before);
      before = after;
    }
  }
}

TEST(DnnHeads, OfDfaMultiplyTheErrorByAFixedMatrix) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Stage0 stage(c, {.source = GradientSource::feedback});
    const std::vector<double> b = stage.head().parameters();
    const auto features = static_cast<std::size_t>(stage.shape.elements());
    ASSERT_EQ(b.size(), features * classes);
    const auto [least, most] = std::ranges::minmax(b);
    const double bound = 1 / std::sqrt(static_cast<double>(features));
    EXPECT_TRUE(-bound <= least && least < -0.8 * bound) << least;
    EXPECT_TRUE(0.8 * bound < most && most <= bound) << most;
    const Tensor error = tensor_of(stage.pool, random_floats(samples * classes, 5));
    Numbers expected(features * samples);
    for (std::size_t n = 0; n < samples; ++n) {
      for (std::size_t j = 0; j < features; ++j) {
        for (std::size_t o = 0; o < classes; ++o) {
          expected[n * features + j] += b[j * classes + o] * error.as<float>()[n * classes + o];
        }
      }
    }
    const Tensor found = stage.head().gradient(error, stage.labels, 1, stage.workspace);
    expect_near(stage.back(found), stage.plain_back(expected));
    stage.head().update(0.5);
    EXPECT_EQ(stage.head().parameters(), b);
  }
}

TEST(DnnHeads, StartFromTheSeedAndTheStageAlone) {
  const models::Model model = small_network();
  for (const GradientSource source : {GradientSource::local_head, GradientSource::feedback}) {
    const auto heads_of = [&](std::uint64_t from) {
      const DnnRun run{.micro_batch_size = 2, .seed = from};
      const auto stages = make_dnn_stages(model, ranges_of({1, 1, 1, 5}), run);
      return make_dnn_heads({.source = source}, stages, run);
    };
    const auto heads = heads_of(1);
    ASSERT_EQ(heads.size(), 4U);
    EXPECT_EQ(heads[3], nullptr);
    EXPECT_EQ(heads[0]->parameters(), heads_of(1)[0]->parameters());
    EXPECT_NE(heads[0]->parameters(), heads_of(2)[0]->parameters());
    EXPECT_NE(heads[0]->parameters(), heads[1]->parameters());  // of the same size
  }
  const auto stages = make_dnn_stages(model, ranges_of({8}), {});
  EXPECT_TRUE(make_dnn_heads({}, stages, {}).empty());
}

TEST(DnnHeads, HaveTheSizeThatIsReported) {
  for (const Case& c : cases()) {
    for (const LocalGradients& local :
         {LocalGradients{.source = GradientSource::local_head},
          LocalGradients{.source = GradientSource::synthesiser},
          LocalGradients{.source = GradientSource::synthesiser, .conditional = true},
          LocalGradients{.source = GradientSource::feedback}}) {
      Stage0 stage(c, local);
      const auto size = head_size(local, stage.shape, classes).weights;
      // Constants of a blocked layout are kept for the channels that only fill it up, too.
      EXPECT_LE(size, std::ssize(stage.head().parameters())) << c.name;
      EXPECT_GE(size * 2, std::ssize(stage.head().parameters())) << c.name;
    }
  }
}

}  // namespace
}  // namespace unlatch::exec
