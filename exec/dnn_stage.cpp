#include "exec/dnn_stage.h"

#include <algorithm>
#include <utility>

#include "exec/dnn_chain.h"
#include "exec/dnn_loss.h"
#include "exec/host_parameter_math.h"
#include "exec/optimizer_state.h"
#include "models/tied_head.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

/// What the layers go back from; a copy unless the scale is 1.
Flow scaled(const Tensor& gradient, double scale, BufferPool& pool) {
  if (scale == 1) return {gradient, false};
  Tensor result = pool.take(gradient.bytes());
  const auto factor = static_cast<float>(scale);
  std::ranges::transform(gradient.as<float>(), result.data<float>(),
                         [factor](float g) { return factor * g; });
  return {std::move(result), true};
}

/// The library's raw errors become ours; the executor adds the task.
template <class F>
auto named(const char* what, F f) {
  try {
    return f();
  } catch (const dnnl::error& error) {
    throw RunError(fmt::format("{}: oneDNN failed: {}", what, error.what()));
  }
}

/// The layers for micro-batches of one size.
struct SizedChain {
  Chain chain;
  Reorder to_rows;  ///< of the logits, for the loss
  Reorder from_rows;

  explicit SizedChain(Chain layers)
      : chain(std::move(layers)),
        to_rows(chain.output().engine, chain.output().layout, rows(chain.output())),
        from_rows(chain.output().engine, rows(chain.output()), chain.output().layout) {}

  static dnnl::memory::desc rows(const Place& place) {
    return plain_layout(place.samples, place.shape);
  }
};

struct SizedTape : LayerTape {
  std::size_t size = 0;  ///< number of its chain
  void visit_state(StateVisitor& visitor) override {
    visitor.number(size);
    LayerTape::visit_state(visitor);
  }
};

const Kept& kept_of(const StageModule::Tape& tape) {
  return static_cast<const SizedTape&>(tape).kept;
}

}  // namespace

struct DnnStageModule::Parts {
  std::vector<SizedChain> sizes;
  std::vector<float> initial;
  std::vector<float> statistics;
  std::size_t tied_bytes = 0;
  models::Optimizer<float> optimizer;
  std::uint64_t seed;
  HostParameterMath<float> math;
  BufferPool pool;

  Parts(std::vector<SizedChain> chains, std::vector<float> weights, std::vector<float> running,
        models::Optimizer<float> stepper, std::uint64_t seed_of_run)
      : sizes(std::move(chains)),
        initial(std::move(weights)),
        statistics(std::move(running)),
        optimizer(std::move(stepper)),
        seed(seed_of_run) {}

  const dnnl::engine& engine() const { return sizes.front().chain.input().engine; }
  /// Number of the chain that takes such an input.
  std::size_t size_of_input(const Tensor& input) const {
    return size_where([&](const Chain& chain) { return chain.input().bytes() == input.bytes(); });
  }
  const SizedChain& of_output(const Tensor& output) const {
    return sizes[size_where(
        [&](const Chain& chain) { return chain.output().bytes() == output.bytes(); })];
  }
  const Chain& of_tape(const Tape& tape) const {
    return sizes[static_cast<const SizedTape&>(tape).size].chain;
  }

 private:
  template <class Fits>
  std::size_t size_where(Fits fits) const {
    const auto found =
        std::ranges::find_if(sizes, [&](const SizedChain& sized) { return fits(sized.chain); });
    require(found != sizes.end(), "a micro-batch of a size that this stage was not made for");
    return static_cast<std::size_t>(found - sizes.begin());
  }
};

DnnStageModule::DnnStageModule(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
DnnStageModule::~DnnStageModule() = default;

Tensor DnnStageModule::initial_weights() const {
  Tensor weights = parts_->pool.take(parts_->initial.size() * sizeof(float));
  std::ranges::copy(parts_->initial, weights.data<float>());
  return weights;
}

Tensor DnnStageModule::zero_gradient() const {
  return parts_->pool.take_zeroed(parts_->initial.size() * sizeof(float));
}

std::size_t DnnStageModule::tied_bytes() const { return parts_->tied_bytes; }

Tensor DnnStageModule::forward(const Tensor& weights, const Tensor& input, Pass pass,
                               std::unique_ptr<Tape>* tape, Workspace& workspace) {
  return named("forward", [&] {
    Call call(parts_->engine(), parts_->pool, workspace);
    const std::size_t size = parts_->size_of_input(input);
    auto kept = tape == nullptr ? nullptr : std::make_unique<SizedTape>();
    if (kept) kept->size = size;
    float* statistics = pass.statistics == Pass::normal ? parts_->statistics.data() : nullptr;
    const Flat flat{weights.data<float>(), nullptr, statistics, draw_of(parts_->seed, pass)};
    Flow output =
        parts_->sizes[size].chain.forward(flat, {input, false}, kept ? &kept->kept : nullptr, call);
    if (tape != nullptr) *tape = std::move(kept);
    return std::move(output.tensor);
  });
}

Tensor DnnStageModule::backward(const Tensor& weights, const Tape& tape, const Tensor& gradient,
                                double scale, bool wants_input_gradient, Tensor& weight_gradient,
                                Workspace& workspace) {
  return named("backward", [&] {
    Call call(parts_->engine(), parts_->pool, workspace);
    const Flat flat{weights.data<float>(), weight_gradient.data<float>(), nullptr};
    return parts_->of_tape(tape)
        .backward(flat, kept_of(tape), scaled(gradient, scale, parts_->pool), wants_input_gradient,
                  call)
        .tensor;
  });
}

Tensor DnnStageModule::backward_input(const Tensor& weights, Tape& tape, const Tensor& gradient,
                                      double scale, bool wants_input_gradient,
                                      Workspace& workspace) {
  return named("input gradient", [&] {
    Call call(parts_->engine(), parts_->pool, workspace);
    return parts_->of_tape(tape)
        .backward_input({weights.data<float>(), nullptr, nullptr},
                        static_cast<SizedTape&>(tape).kept, scaled(gradient, scale, parts_->pool),
                        wants_input_gradient, call)
        .tensor;
  });
}

void DnnStageModule::backward_weight(const Tape& tape, Tensor& weight_gradient,
                                     Workspace& workspace) {
  named("weight gradient", [&] {
    Call call(parts_->engine(), parts_->pool, workspace);
    parts_->of_tape(tape).backward_weight({nullptr, weight_gradient.data<float>(), nullptr},
                                          kept_of(tape), call);
  });
}

Loss DnnStageModule::loss(const Tensor& output, const Tensor& target, double scale,
                          Tensor* gradient, Workspace& workspace) {
  return named("loss", [&] {
    Call call(parts_->engine(), parts_->pool, workspace);
    const SizedChain& sized = parts_->of_output(output);
    const Tensor logits = sized.to_rows.moved(output, call);
    Tensor rows = gradient == nullptr ? Tensor() : parts_->pool.take(logits.bytes());
    const Loss result = softmax_cross_entropy(logits.as<float>(), target.as<std::int32_t>(), scale,
                                              rows.as<float>());
    if (gradient != nullptr) *gradient = sized.from_rows.moved(std::move(rows), call);
    return result;
  });
}

std::size_t DnnStageModule::optimizer_bytes() const { return parts_->optimizer.bytes(); }

Tensor DnnStageModule::copy_of(const Tensor& weights) { return parts_->pool.copy_of(weights); }

void DnnStageModule::all_reduce(std::span<Tensor* const> tensors, double factor) {
  all_reduce_as<float>(tensors, factor);
}

ParameterMath& DnnStageModule::math() { return parts_->math; }

Tensor DnnStageModule::predicted(const Tensor& weights, int updates, double rate) {
  const Tensor moved = parts_->pool.copy_of(weights);
  parts_->optimizer.coast(moved.as<float>(), updates, rate);
  return moved;
}

void DnnStageModule::update(Tensor& weights, Tensor& gradient, double rate) {
  parts_->optimizer.step(weights.as<float>(), gradient.as<float>(), rate);
  std::ranges::fill(gradient.as<float>(), 0.0F);
}

void DnnStageModule::visit_state(StateVisitor& visitor) {
  visitor.reals("running statistics", std::span(parts_->statistics));
  visit_optimizer(visitor, parts_->optimizer);
}

std::unique_ptr<StageModule::Tape> DnnStageModule::empty_tape() const {
  return std::make_unique<SizedTape>();
}

std::span<float> DnnStageModule::statistics() { return parts_->statistics; }
std::size_t DnnStageModule::output_bytes() const { return output().layout.get_size(); }
std::size_t DnnStageModule::parameters() const { return parts_->initial.size(); }
const Place& DnnStageModule::output() const { return parts_->sizes.front().chain.output(); }

std::vector<Place> DnnStageModule::outputs() const {
  std::vector<Place> places;
  for (const SizedChain& sized : parts_->sizes) places.push_back(sized.chain.output());
  return places;
}

std::unique_ptr<DnnStageModule> DnnStageModule::make(const models::Model& model,
                                                     const models::StageRange& range,
                                                     std::span<const Place> inputs,
                                                     const DnnRun& run) {
  // Primitives remember for how many threads they were made.
  const OneMathsThread one_thread;
  std::vector<SizedChain> sizes;
  for (const Place& input : inputs) sizes.emplace_back(Chain(model.layers_of(range), input));
  auto parts = std::make_unique<Parts>(
      std::move(sizes), models::initial_weights(model, range, run.seed),
      models::initial_statistics(model, range),
      models::Optimizer<float>(run.optimizer, models::parameter_tensors(model, range)), run.seed);
  parts->tied_bytes = static_cast<std::size_t>(models::tied_floats(model, range)) * sizeof(float);
  return std::unique_ptr<DnnStageModule>(new DnnStageModule(std::move(parts)));
}

void require_stages(const models::Model& model, std::span<const models::StageRange> ranges,
                    const DnnRun& run) {
  require(run.micro_batch_size > 0, "model {}: a micro-batch holds {} samples; give at least 1",
          model.name, run.micro_batch_size);
  models::require_covers(model, ranges);
}

std::vector<std::unique_ptr<DnnStageModule>> make_dnn_stages(
    const models::Model& model, std::span<const models::StageRange> ranges, const DnnRun& run) {
  require_stages(model, ranges, run);
  const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  std::vector<Place> places;
  const auto add = [&](int samples) {
    places.push_back(
        {cpu, Mode::training, samples, model.input, plain_layout(samples, model.input)});
  };
  add(run.micro_batch_size);
  for (const int samples : run.other_sizes) add(samples);
  std::vector<std::unique_ptr<DnnStageModule>> stages;
  for (const models::StageRange& range : ranges) {
    stages.push_back(DnnStageModule::make(model, range, places, run));
    places = stages.back()->outputs();
  }
  return stages;
}

std::unique_ptr<DnnStageModule> make_dnn_stage_on(const Place& input, const models::Model& model,
                                                  const DnnRun& run) {
  return DnnStageModule::make(model, {0, static_cast<int>(model.layers.size()) - 1}, {&input, 1},
                              run);
}

}  // namespace unlatch::exec
