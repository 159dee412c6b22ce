#include "exec/cuda_stage.h"

#include <array>
#include <bit>
#include <utility>

#include "models/tied_head.h"
#include "schedules/error.h"

namespace unlatch::exec::cuda {
namespace {

std::size_t floats(const Tensor& tensor) { return tensor.bytes() / sizeof(float); }

}  // namespace

LossSlots::LossSlots(const StreamOrder& order) : order_(order) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, static_cast<std::size_t>(order.window()) * sizeof(RowLoss)),
        "cudaMallocHost");
  slots_ = static_cast<RowLoss*>(memory);
}

LossSlots::~LossSlots() {
  if (!gave_up()) cudaFreeHost(slots_);
}

CudaStage::CudaStage(const models::Model& model, const models::StageRange& range,
                     const Place& place, const DnnRun& run, double loss_scale, Rank rank,
                     const LossSlots& slots)
    : chain_(model.layers_of(range), place),
      rank_(rank),
      slots_(slots),
      seed_(run.seed),
      loss_scale_(loss_scale),
      initial_(models::initial_weights(model, range, run.seed)),
      optimizer_(run.optimizer, models::parameter_tensors(model, range), loss_scale, device(),
                 rank),
      math_(device(), loss_scale, check_) {
  statistics_ = device().upload(rank, models::initial_statistics(model, range));
  if (loss_scale != 1) check_ = device().upload(rank, std::array<float, 2>{});  // both counts 0
}

Tensor CudaStage::initial_weights() const { return device().upload(rank_, initial_); }

Tensor CudaStage::zero_gradient() const {
  return device().upload(rank_, std::vector<float>(initial_.size(), 0.0F));
}

int left_out_in(const Device& device, const Tensor& check) {
  if (check.empty()) return 0;
  const std::vector<float> words = device.download(check);
  return std::bit_cast<GradientCheck>(std::array{words[0], words[1]}).left_out;
}

int CudaStage::updates_left_out() const { return left_out_in(device(), check_); }

std::vector<float> CudaStage::statistics() const { return device().download(statistics_); }

Tensor CudaStage::forward(const Tensor& weights, const Tensor& input, Pass pass,
                          std::unique_ptr<Tape>* tape, Workspace&) {
  auto kept = std::make_unique<LayerTape>();
  const Flat flat{device().read(weights), nullptr,
                  pass.statistics == Pass::normal ? device().write(statistics_) : nullptr,
                  draw_of(seed_, pass)};
  Flow output =
      chain_.forward(flat, {input, false}, tape == nullptr ? nullptr : &kept->kept, device());
  if (tape != nullptr) *tape = std::move(kept);
  return std::move(output.tensor);
}

/// What the layers go back from; a copy unless the scale is 1.
Flow CudaStage::scaled(const Tensor& gradient, double scale) const {
  if (scale == 1) return {gradient, false};
  Tensor result = device().take(gradient.bytes());
  const Precision precision = device().settings().precision;
  device().launch(launch_scale, precision, static_cast<float>(scale), device().read<void>(gradient),
                  device().write<void>(result), gradient.bytes() / bytes_of(precision));
  return {std::move(result), true};
}

Tensor CudaStage::backward(const Tensor& weights, const Tape& tape, const Tensor& gradient,
                           double scale, bool wants_input_gradient, Tensor& weight_gradient,
                           Workspace&) {
  const Flat flat{device().read(weights), device().write(weight_gradient), nullptr};
  return chain_
      .backward(flat, static_cast<const LayerTape&>(tape).kept, scaled(gradient, scale),
                wants_input_gradient, device())
      .tensor;
}

Tensor CudaStage::backward_input(const Tensor& weights, Tape& tape, const Tensor& gradient,
                                 double scale, bool wants_input_gradient, Workspace&) {
  const Flat flat{device().read(weights), nullptr, nullptr};
  return chain_
      .backward_input(flat, static_cast<LayerTape&>(tape).kept, scaled(gradient, scale),
                      wants_input_gradient, device())
      .tensor;
}

void CudaStage::backward_weight(const Tape& tape, Tensor& weight_gradient, Workspace&) {
  chain_.backward_weight({nullptr, device().write(weight_gradient), nullptr},
                         static_cast<const LayerTape&>(tape).kept, device());
}

RowLoss* CudaStage::enqueue_loss(const Tensor& output, const Tensor& target, double scale,
                                 Tensor* gradient) {
  const int rows = chain_.output().rows();
  const int classes = static_cast<int>(chain_.output().shape.features());
  if (gradient != nullptr) *gradient = device().take(output.bytes());
  const Tensor losses = device().take((static_cast<std::size_t>(rows) + 1) * sizeof(RowLoss));
  auto* of_rows = device().write<RowLoss>(losses);
  RowLoss* total = of_rows + rows;
  device().launch(launch_cross_entropy, chain_.output().precision(), device().read<void>(output),
                  device().read<std::int32_t>(target), rows, classes, loss_scale_ * scale / rows,
                  gradient == nullptr ? nullptr : device().write<void>(*gradient), of_rows, total);
  RowLoss* slot = slots_.of(*device().order().current());
  device().call("cudaMemcpyAsync", cudaMemcpyAsync, slot, total, sizeof(RowLoss),
                cudaMemcpyDeviceToHost, device().stream());
  return slot;
}

Loss CudaStage::loss_in(const RowLoss& sum) const {
  const int rows = chain_.output().rows();
  require(sum.valid == rows,
          "softmax cross entropy: {} of {} labels are no class of {}; give the model the data "
          "set's number of classes",
          rows - sum.valid, rows, chain_.output().shape.features());
  return {.loss = sum.loss / rows, .correct = sum.correct, .samples = rows};
}

Loss CudaStage::loss(const Tensor& output, const Tensor& target, double scale, Tensor* gradient,
                     Workspace&) {
  const RowLoss* slot = enqueue_loss(output, target, scale, gradient);
  device().finish();
  return loss_in(*slot);
}

void CudaStage::report_loss(const Tensor& output, const Tensor& target, double scale,
                            Tensor* gradient, Workspace&, std::function<void(const Loss&)> report) {
  const RowLoss* slot = enqueue_loss(output, target, scale, gradient);
  device().order().then([this, slot, report = std::move(report)] { report(loss_in(*slot)); });
}

/// In the order of the tensors, as on the CPU, or by NCCL in its own.
void CudaStage::all_reduce(std::span<Tensor* const> tensors, double factor) {
  if (tensors.front()->empty()) return;  // layers without parameters
  if (device().sum_at_once(tensors, factor)) return;
  const Tensor& sum = *tensors.front();
  const std::size_t n = floats(sum);
  for (const Tensor* tensor : tensors.subspan(1)) {
    const Tensor here = device().brought(*tensor);
    device().launch(launch_add, Precision::fp32, device().read<void>(here),
                    device().write<void>(sum), n);
  }
  if (factor != 1) {
    device().launch(launch_scale, Precision::fp32, static_cast<float>(factor),
                    device().read<void>(sum), device().write<void>(sum), n);
  }
  for (const Tensor* tensor : tensors.subspan(1)) device().copy_into(*tensor, sum);
}

Tensor CudaStage::predicted(const Tensor& weights, int updates, double rate) {
  Tensor moved = device().copy_of(weights);
  optimizer_.coast(moved, updates, rate);
  return moved;
}

void CudaStage::update(Tensor& weights, Tensor& gradient, double rate) {
  optimizer_.step(weights, gradient, rate, math_.check());
}

std::vector<std::unique_ptr<CudaStage>> make_cuda_stages(
    const models::Model& model, std::span<const models::StageRange> ranges, const DnnRun& run,
    double loss_scale, Device& device, std::span<const Rank> ranks, const LossSlots& slots) {
  require_stages(model, ranges, run);
  require(!models::has_tied_head(model),
          "model {}: a head that is tied to the embedding is trained on the CPU alone", model.name);
  Place place{&device, run.micro_batch_size, model.input};
  std::vector<std::unique_ptr<CudaStage>> stages;
  for (std::size_t k = 0; k < ranges.size(); ++k) {
    stages.push_back(
        std::make_unique<CudaStage>(model, ranges[k], place, run, loss_scale, ranks[k], slots));
    place = stages.back()->output();
  }
  return stages;
}

}  // namespace unlatch::exec::cuda
