// The scalar heads on a device whose work can be noted: they compute only when their work is run.
#pragma once

#include <memory>
#include <vector>

#include "exec/scalar_heads.h"
#include "tests/exec/noted_device.h"

namespace unlatch::exec {

/// Parameters and sums of their gradients, a tensor each.
class NotedHead : public LocalHead {
 public:
  NotedHead(NotedDevice& device, Stage stage, const std::vector<double>& values) : device_(device) {
    for (const double value : values) parameters_.push_back(device.uploaded(stage, value));
    sum_ = device.uploaded(stage, 0);
  }
  void learn(const Tensor&, const Tensor&, const Tensor&, Workspace&) override {}
  void update(double) override {}
  std::vector<double> parameters() const override {
    std::vector<double> values;
    for (const Tensor& parameter : parameters_) values.push_back(*parameter.data<double>());
    return values;
  }
  Bytes bytes() const override { return {}; }

 protected:
  double* used(const Tensor& tensor) const { return device_.used(tensor); }
  double* parameter(std::size_t i) const { return used(parameters_[i]); }

  NotedDevice& device_;
  std::vector<Tensor> parameters_;
  Tensor sum_;
};

class NotedClassifier : public NotedHead {
 public:
  using NotedHead::NotedHead;
  Tensor gradient(const Tensor& output, const Tensor& target, double scale, Workspace&) override {
    const Tensor result = device_.taken();
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double* a, double* h, double* y, double share, double* sum,
            double* out) {
          const double weight = d.read(lane, a), value = d.read(lane, h);
          const double g = (weight * value - d.read(lane, y)) * share;
          d.write(lane, sum, d.read(lane, sum) + g * value);
          d.write(lane, out, g * weight);
        },
        parameter(0), used(output), used(target), scale, used(sum_), used(result));
    return result;
  }
  void update(double rate) override {
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double step, double* a, double* sum) {
          d.write(lane, a, d.read(lane, a) - step * d.read(lane, sum));
          d.write(lane, sum, 0);
        },
        rate, parameter(0), used(sum_));
  }
};

/// Without a label the third parameter is null.
class NotedSynthesiser : public NotedHead {
 public:
  NotedSynthesiser(NotedDevice& device, Stage stage, const LocalGradients& local)
      : NotedHead(device, stage, std::vector<double>(local.conditional ? 3 : 2, 0.0)),
        conditional_(local.conditional),
        rate_(local.rate) {}

  Tensor gradient(const Tensor& output, const Tensor& target, double, Workspace&) override {
    const Tensor result = device_.taken();
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double* p, double* q, double* r, double* h, double* y,
            double* out) { d.write(lane, out, predict(d, lane, p, q, r, h, y)); },
        parameter(0), parameter(1), label_parameter(), used(output), label(target), used(result));
    return result;
  }
  void learn(const Tensor& output, const Tensor& target, const Tensor& gradient,
             Workspace&) override {
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double* p, double* q, double* r, double* h, double* y,
            double* g, double rate) {
          const double slope = 2 * (predict(d, lane, p, q, r, h, y) - d.read(lane, g));
          d.write(lane, p, d.read(lane, p) - rate * (slope * d.read(lane, h)));
          d.write(lane, q, d.read(lane, q) - rate * slope);
          if (r != nullptr) d.write(lane, r, d.read(lane, r) - rate * (slope * d.read(lane, y)));
        },
        parameter(0), parameter(1), label_parameter(), used(output), label(target), used(gradient),
        rate_);
  }

 private:
  static double predict(NotedDevice& d, LaneId lane, double* p, double* q, double* r, double* h,
                        double* y) {
    const double linear = d.read(lane, p) * d.read(lane, h) + d.read(lane, q);
    return r == nullptr ? linear : linear + d.read(lane, r) * d.read(lane, y);
  }
  double* label_parameter() const { return conditional_ ? parameter(2) : nullptr; }
  double* label(const Tensor& target) const { return conditional_ ? used(target) : nullptr; }

  bool conditional_;
  double rate_;
};

class NotedFeedback : public NotedHead {
 public:
  using NotedHead::NotedHead;
  Tensor gradient(const Tensor& error, const Tensor&, double, Workspace&) override {
    const Tensor result = device_.taken();
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double* b, double* e, double* out) {
          d.write(lane, out, d.read(lane, b) * d.read(lane, e));
        },
        parameter(0), used(error), used(result));
    return result;
  }
};

/// With the numbers that scalar_heads() starts from, for plain SGD.
inline std::vector<std::unique_ptr<LocalHead>> noted_heads(NotedDevice& device) {
  const LocalGradients& local = device.graph.learning().local_gradients;
  std::vector<std::unique_ptr<LocalHead>> heads;
  for (const auto& head : scalar_heads(device.graph, {})) {
    const Stage stage{static_cast<int>(heads.size())};
    if (head == nullptr) {
      heads.push_back(nullptr);
    } else if (local.source == GradientSource::local_head) {
      heads.push_back(std::make_unique<NotedClassifier>(device, stage, head->parameters()));
    } else if (local.source == GradientSource::synthesiser) {
      heads.push_back(std::make_unique<NotedSynthesiser>(device, stage, local));
    } else {
      heads.push_back(std::make_unique<NotedFeedback>(device, stage, head->parameters()));
    }
  }
  return heads;
}

}  // namespace unlatch::exec
