#include "exec/cuda_heads.h"

#include <array>
#include <utility>

#include "exec/classifier_head.h"
#include "exec/cuda_head_kernels.h"
#include "exec/cuda_square_sum.h"
#include "exec/head_networks.h"

namespace unlatch::exec::cuda {
namespace {

std::vector<double> as_doubles(const Device& device, const Tensor& tensor) {
  const std::vector<float> values = device.download(tensor);
  return {values.begin(), values.end()};
}

std::size_t floats(const Tensor& tensor) { return tensor.bytes() / sizeof(float); }

/// What the heads of one stage are made from.
struct Site {
  Place output;  ///< of the stage
  Rank rank;
  const LossSlots& slots;
  int classes;

  Device& device() const { return *output.device; }
  /// A whole model as one stage on the stage's rank.
  std::unique_ptr<CudaStage> stage_of(const models::Model& model, const DnnRun& run,
                                      double loss_scale = 1) const {
    const models::StageRange all{0, static_cast<int>(model.layers.size()) - 1};
    Place place = output;
    place.shape = model.input;
    return std::make_unique<CudaStage>(model, all, place, run, loss_scale, rank, slots);
  }
};

class Classifier : public ClassifierHead {
 public:
  Classifier(std::unique_ptr<StageModule> net, Device& device)
      : ClassifierHead(std::move(net)), device_(device) {}
  std::vector<double> parameters() const override { return as_doubles(device_, weights()); }

 private:
  Device& device_;
};

/// Where the loss is scaled, the gradients that it learns from are, and so is what it predicts: its
/// parameters start at 0 and every step of theirs is linear in those gradients.
class Synthesiser : public LocalHead {
 public:
  Synthesiser(const Site& site, const LocalGradients& local, double loss_scale)
      : output_(site.output),
        classes_(site.classes),
        local_(local),
        net_(site.stage_of(map_of_outputs(output_.shape, classes_),
                           {.micro_batch_size = output_.samples})),
        weights_(net_->zero_gradient()),
        gradient_(net_->zero_gradient()) {
    const auto row = static_cast<std::size_t>(output_.shape.features());
    const std::size_t rows = local.conditional ? static_cast<std::size_t>(classes_) : 1;
    constants_ = device().upload(site.rank, std::vector<float>(rows * row, 0.0F));
    if (loss_scale != 1) check_ = device().upload(site.rank, std::array<float, 2>{});
  }

  Tensor gradient(const Tensor& output, const Tensor& target, double,
                  Workspace& workspace) override {
    return predict(output, target, nullptr, workspace);
  }

  void learn(const Tensor& output, const Tensor& target, const Tensor& gradient,
             Workspace& workspace) override {
    std::unique_ptr<StageModule::Tape> tape;
    const Tensor slope = predict(output, target, &tape, workspace);
    const double rows = output_.rows();
    device().launch(launch_slope, output_.precision(), static_cast<float>(2 / rows),
                    device().read<void>(gradient), device().write<void>(slope), output_.elements());
    const Tensor squares = device().take((square_shares + 1) * sizeof(double));
    auto* shares = device().write<double>(squares);
    double* energy = shares + square_shares;
    device().launch(launch_square_sum, output_.precision(), device().read<void>(output),
                    output_.elements(), meetings_with_weights(output_.shape) / rows, 1.0, shares,
                    energy);
    net_->backward(weights_, *tape, slope, 1, false, gradient_, workspace);
    auto* check = check_.empty() ? nullptr : device().write<GradientCheck>(check_);
    device().launch(launch_synthesiser_step, output_.precision(),
                    NormalisedStep{local_.rate, energy, check}, device().read<void>(slope),
                    rows_of(target), device().write(constants_), device().write(weights_),
                    device().write(gradient_), floats(weights_));
  }

  void update(double) override {}

  std::vector<double> parameters() const override {
    std::vector<double> all = as_doubles(device(), weights_);
    const std::vector<double> more = as_doubles(device(), constants_);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Bytes bytes() const override {
    return {.weights = weights_.bytes() + constants_.bytes(), .gradient = gradient_.bytes()};
  }
  int steps_left_out() const { return left_out_in(device(), check_); }

 private:
  Device& device() const { return *output_.device; }
  ConstantRows rows_of(const Tensor& target) {
    return {local_.conditional ? device().read<std::int32_t>(target) : nullptr, classes_,
            output_.rows(), output_.shape.features()};
  }
  /// In a tensor of its own.
  Tensor predict(const Tensor& output, const Tensor& target,
                 std::unique_ptr<StageModule::Tape>* tape, Workspace& workspace) {
    Tensor prediction = net_->forward(weights_, output, StageModule::Pass::normal, tape, workspace);
    device().launch(launch_add_constants, output_.precision(), device().read(constants_),
                    rows_of(target), device().write<void>(prediction), output_.elements());
    return prediction;
  }

  Place output_;
  int classes_;
  LocalGradients local_;
  std::unique_ptr<CudaStage> net_;
  Tensor weights_;
  Tensor gradient_;
  Tensor constants_;  ///< [1 or classes, numbers of the output]
  Tensor check_;      ///< empty where the loss is not scaled
};

class Feedback : public LocalHead {
 public:
  Feedback(const Site& site, std::uint64_t seed)
      : device_(site.device()),
        net_(site.stage_of(map_of_errors(site.classes, site.output.shape),
                           {.micro_batch_size = site.output.samples})),
        weights_(
            device_.upload(site.rank, feedback_weights(site.classes, site.output.shape, seed))) {}

  Tensor gradient(const Tensor& error, const Tensor&, double, Workspace& workspace) override {
    return net_->forward(weights_, error, StageModule::Pass::replay, nullptr, workspace);
  }
  void learn(const Tensor&, const Tensor&, const Tensor&, Workspace&) override {}
  void update(double) override {}
  std::vector<double> parameters() const override { return as_doubles(device_, weights_); }
  Bytes bytes() const override { return {.weights = weights_.bytes()}; }

 private:
  Device& device_;
  std::unique_ptr<CudaStage> net_;
  Tensor weights_;
};

CudaHead make_head(const LocalGradients& local, const Site& site, const DnnRun& run,
                   double loss_scale) {
  if (local.source == GradientSource::local_head) {
    auto net = site.stage_of(classifier(site.output.shape, site.classes), run, loss_scale);
    const CudaStage* whose = net.get();
    return {std::make_unique<Classifier>(std::move(net), site.device()),
            [whose] { return whose->updates_left_out(); }};
  }
  if (local.source == GradientSource::synthesiser) {
    auto head = std::make_unique<Synthesiser>(site, local, loss_scale);
    const Synthesiser* whose = head.get();
    return {std::move(head), [whose] { return whose->steps_left_out(); }};
  }
  return {std::make_unique<Feedback>(site, run.seed), [] { return 0; }};
}

}  // namespace

std::vector<CudaHead> make_cuda_heads(const LocalGradients& local,
                                      std::span<const std::unique_ptr<CudaStage>> stages,
                                      const DnnRun& run, double loss_scale,
                                      std::span<const Rank> ranks, const LossSlots& slots) {
  std::vector<CudaHead> heads;
  if (local.source == GradientSource::next_stage) return heads;
  const int classes = static_cast<int>(stages.back()->output().shape.features());
  for (std::size_t k = 0; k + 1 < stages.size(); ++k) {
    DnnRun mine = run;
    mine.seed = seed_of_head(run.seed, k);
    heads.push_back(
        make_head(local, {stages[k]->output(), ranks[k], slots, classes}, mine, loss_scale));
  }
  heads.emplace_back();
  return heads;
}

}  // namespace unlatch::exec::cuda
