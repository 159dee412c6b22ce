// What the tests of oneDNN stages share: random tensors, a small network and a plain trainer.
#pragma once

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "exec/dnn_stage.h"
#include "models/dataset.h"

namespace unlatch::exec {

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  std::ranges::generate(values, [&] { return uniform(generator); });
  return values;
}

template <class T>
Tensor tensor_of(BufferPool& pool, const std::vector<T>& values) {
  Tensor tensor = pool.take(values.size() * sizeof(T));
  std::ranges::copy(values, tensor.data<T>());
  return tensor;
}

/// Images in memory whose pixels come out as (pixel / scale - mean) / deviation.
inline models::Dataset dataset_of(const models::SampleShape& shape, int classes,
                                  std::vector<std::uint8_t> pixels,
                                  std::vector<std::int32_t> labels, double scale = 1,
                                  float mean = 0, float deviation = 1) {
  models::Dataset data;
  data.name = "test";
  data.shape = shape;
  data.classes = classes;
  data.pixels = std::move(pixels);
  data.labels = std::move(labels);
  data.scale = scale;
  data.mean.assign(static_cast<std::size_t>(shape.channels), mean);
  data.deviation.assign(static_cast<std::size_t>(shape.channels), deviation);
  return data;
}

/// Every kind of layer on 3x8x8 images, six layers to cut between.
inline models::Model small_network() {
  using namespace models;
  const auto layer = [](auto kind) { return Layer{.name = "layer", .kind = kind}; };
  const auto conv = [&](int out, int stride) {
    return layer(Convolution{out, 3, stride, 1, false});
  };
  return {.name = "small",
          .input = {3, 8, 8},
          .classes = 4,
          .layers = {conv(10, 1), layer(BatchNorm{}), layer(Relu{}),
                     layer(Residual{.body = {conv(16, 2), layer(BatchNorm{}), layer(Relu{}),
                                             conv(16, 1), layer(BatchNorm{})},
                                    .shortcut = {conv(16, 2)}}),
                     layer(Relu{}), layer(MaxPool{2, 2}), layer(GlobalAveragePool{}),
                     layer(Linear{.out_features = 4})}};
}

inline std::vector<models::StageRange> ranges_of(const std::vector<int>& sizes) {
  std::vector<models::StageRange> ranges;
  int first = 0;
  for (const int size : sizes) {
    ranges.push_back({first, first + size - 1});
    first += size;
  }
  return ranges;
}

/// Plain back-propagation over stages, one after the other.
class Trainer {
 public:
  Trainer(const models::Model& model, const std::vector<int>& sizes, const DnnRun& run)
      : stages(make_dnn_stages(model, ranges_of(sizes), run)) {
    for (const auto& stage : stages) {
      weights.push_back(stage->initial_weights());
      gradients.push_back(stage->zero_gradient());
    }
  }

  /// F and B of one micro-batch; the gradients are those of `scale` times its mean loss.
  Loss accumulate(const Tensor& input, const Tensor& labels, double scale = 1) {
    std::vector<std::unique_ptr<StageModule::Tape>> tapes(stages.size());
    Tensor flow = input;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      flow = stages[k]->forward(weights[k], flow, StageModule::Pass::normal, &tapes[k], workspace);
    }
    Tensor gradient;
    const Loss loss = stages.back()->loss(flow, labels, scale, &gradient, workspace);
    for (std::size_t k = stages.size(); k-- > 0;) {
      gradient =
          stages[k]->backward(weights[k], *tapes[k], gradient, 1, k > 0, gradients[k], workspace);
    }
    return loss;
  }

  void update(double rate) {
    for (std::size_t k = 0; k < stages.size(); ++k) {
      stages[k]->update(weights[k], gradients[k], rate);
    }
  }

  static std::vector<float> joined(const std::vector<Tensor>& parts) {
    std::vector<float> all;
    for (const Tensor& part : parts) {
      all.insert(all.end(), part.as<float>().begin(), part.as<float>().end());
    }
    return all;
  }

  std::vector<float> statistics() const {
    std::vector<float> all;
    for (const auto& stage : stages) {
      all.insert(all.end(), stage->statistics().begin(), stage->statistics().end());
    }
    return all;
  }

  std::vector<std::unique_ptr<DnnStageModule>> stages;
  std::vector<Tensor> weights;
  std::vector<Tensor> gradients;
  Workspace workspace;
};

}  // namespace unlatch::exec
