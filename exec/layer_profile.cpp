#include "exec/layer_profile.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "exec/data_feed.h"
#include "exec/dnn_chain.h"
#include "exec/dnn_loss.h"
#include "models/tied_head.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

std::int64_t since(Clock::time_point start) {
  return std::chrono::duration_cast<nanoseconds>(Clock::now() - start).count();
}

/// One step's times; the vectors are by layer.
struct StepTimes {
  Laps forward, forward_only, backward, input_gradient, weight_gradient, update;
  std::int64_t input = 0, target = 0, loss = 0, forward_call = 0, step = 0;

  explicit StepTimes(std::size_t layers)
      : forward(layers),
        forward_only(layers),
        backward(layers),
        input_gradient(layers),
        weight_gradient(layers),
        update(layers) {}
};

/// A whole model trained by one thread, layer by layer.
class ProfiledModel {
 public:
  ProfiledModel(const models::Model& model, const models::Dataset& data,
                const ProfileOptions& options)
      : feed_(data, model.input, options.micro_batch_size, 1, options.seed),
        chain_(model.layers,
               {dnnl::engine(dnnl::engine::kind::cpu, 0), Mode::training, options.micro_batch_size,
                model.input, plain_layout(options.micro_batch_size, model.input)}),
        to_rows_(chain_.output().engine, chain_.output().layout, rows()),
        from_rows_(chain_.output().engine, rows(), chain_.output().layout) {
    for (std::size_t j = 0; j < model.layers.size(); ++j) {
      const auto layer = models::initial_weights(model, static_cast<int>(j), options.seed);
      const auto running = models::initial_statistics(model, static_cast<int>(j));
      weights_.insert(weights_.end(), layer.begin(), layer.end());
      statistics_.insert(statistics_.end(), running.begin(), running.end());
      const int number = static_cast<int>(j);
      optimizers_.emplace_back(options.optimizer,
                               models::parameter_tensors(model, {number, number}));
      sizes_.push_back(layer.size());
    }
    gradient_.resize(weights_.size());
  }

  /// As a stage that keeps its tape: F, loss, B, U. The other way round for what is left to
  /// measure, as one that recomputes and splits its backward: F, R, loss, I, W, U.
  StepTimes step(int number, bool other_way) {
    StepTimes times(sizes_.size());
    const auto start = Clock::now();
    const Tensor input = feed_.input(MicroBatch{number});
    times.input = since(start);
    if (other_way) forward(input, nullptr, times.forward_only);
    Kept kept;
    const auto forward_start = Clock::now();
    Tensor output = forward(input, &kept, times.forward);
    times.forward_call = since(forward_start);
    const auto target_start = Clock::now();
    const Tensor target = feed_.target(MicroBatch{number});
    times.target = since(target_start);
    const auto loss_start = Clock::now();
    Tensor gradient = loss_gradient(output, target);
    times.loss = since(loss_start);
    output = {};
    if (other_way) {
      backward_input(kept, std::move(gradient), times.input_gradient);
      backward_weight(kept, times.weight_gradient);
    } else {
      backward(kept, std::move(gradient), times.backward);
    }
    kept = {};
    update(times.update);
    times.step = since(start);
    return times;
  }

  const Chain& chain() const { return chain_; }

  /// Of each layer.
  struct TapeBytes {
    std::vector<std::size_t> whole, for_weight_gradient;
  };
  TapeBytes tape_bytes() {
    Kept kept;
    Laps laps(sizes_.size());
    const Tensor output = forward(feed_.input(MicroBatch{0}), &kept, laps);
    TapeBytes bytes{.whole = bytes_by_layer(kept), .for_weight_gradient = {}};
    backward_input(kept, loss_gradient(output, feed_.target(MicroBatch{0})), laps);
    bytes.for_weight_gradient = bytes_by_layer(kept);
    return bytes;
  }

 private:
  static std::vector<std::size_t> bytes_by_layer(const Kept& kept) {
    SeenMemory counted;
    std::vector<std::size_t> bytes(kept.inner.size());
    for (std::size_t j = bytes.size(); j-- > 0;) bytes[j] = kept.inner[j].bytes(counted);
    return bytes;
  }

  dnnl::memory::desc rows() const {
    return plain_layout(chain_.output().samples, chain_.output().shape);
  }

  Tensor forward(const Tensor& input, Kept* kept, Laps& laps) {
    Call call(chain_.input().engine, pool_, workspace_);
    return chain_
        .forward({weights_.data(), nullptr, statistics_.data()}, {input, false}, kept, call, &laps)
        .tensor;
  }

  Tensor loss_gradient(const Tensor& output, const Tensor& target) {
    Call call(chain_.input().engine, pool_, workspace_);
    const Tensor logits = to_rows_.moved(output, call);
    Tensor gradient = pool_.take(logits.bytes());
    softmax_cross_entropy(logits.as<float>(), target.as<std::int32_t>(), 1, gradient.as<float>());
    return from_rows_.moved(std::move(gradient), call);
  }

  void backward(const Kept& kept, Tensor gradient, Laps& laps) {
    Call call(chain_.input().engine, pool_, workspace_);
    chain_.backward({weights_.data(), gradient_.data(), nullptr}, kept,
                    {std::move(gradient), false}, false, call, &laps);
  }

  void backward_input(Kept& kept, Tensor gradient, Laps& laps) {
    Call call(chain_.input().engine, pool_, workspace_);
    chain_.backward_input({weights_.data(), nullptr, nullptr}, kept, {std::move(gradient), false},
                          false, call, &laps);
  }

  void backward_weight(const Kept& kept, Laps& laps) {
    Call call(chain_.input().engine, pool_, workspace_);
    chain_.backward_weight({nullptr, gradient_.data(), nullptr}, kept, call, &laps);
  }

  /// At a rate of almost nothing: the work is the same, and the weights stay sane for ever.
  void update(Laps& laps) {
    std::span<float> weights(weights_);
    std::span<float> gradient(gradient_);
    for (std::size_t j = 0; j < sizes_.size(); ++j) {
      const auto start = Clock::now();
      optimizers_[j].step(weights.first(sizes_[j]), gradient.first(sizes_[j]), 1e-6);
      std::ranges::fill(gradient.first(sizes_[j]), 0.0F);
      laps[j] = nanoseconds(since(start));
      weights = weights.subspan(sizes_[j]);
      gradient = gradient.subspan(sizes_[j]);
    }
  }

  DataFeed feed_;
  Chain chain_;
  Reorder to_rows_;
  Reorder from_rows_;
  std::vector<float> weights_, gradient_, statistics_;
  std::vector<models::Optimizer<float>> optimizers_;
  std::vector<std::size_t> sizes_;  ///< parameters of each layer
  BufferPool pool_;
  Workspace workspace_;
};

/// Whatever `of` reads from one step, over all of them.
template <class F>
Measurement over(const std::vector<StepTimes>& steps, F of) {
  std::vector<std::int64_t> samples;
  samples.reserve(steps.size());
  for (const StepTimes& step : steps) samples.push_back(of(step));
  return measurement_of(std::move(samples));
}

std::int64_t sum_of(const Laps& laps) {
  return std::accumulate(laps.begin(), laps.end(), nanoseconds(0)).count();
}

/// The value a quarter, half or three quarters of the way up, between two samples if need be.
std::int64_t quantile(std::span<const std::int64_t> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  const double fraction = place - static_cast<double>(low);
  return sorted[low] + std::llround(fraction * static_cast<double>(sorted[high] - sorted[low]));
}

}  // namespace

Measurement measurement_of(std::vector<std::int64_t> samples_ns) {
  require(!samples_ns.empty(), "profile: nothing was measured");
  std::ranges::sort(samples_ns);
  const std::size_t outer = samples_ns.size() / 10;
  const auto kept = std::span(samples_ns).subspan(outer, samples_ns.size() - 2 * outer);
  const std::int64_t sum = std::accumulate(kept.begin(), kept.end(), std::int64_t{0});
  return {.mean_ns = std::llround(static_cast<double>(sum) / static_cast<double>(kept.size())),
          .median_ns = quantile(samples_ns, 0.5),
          .lower_ns = quantile(samples_ns, 0.25),
          .upper_ns = quantile(samples_ns, 0.75)};
}

/// The threads of a burst: either `workers` of them at once, the first of which is measured, or two
/// that take turns and are both measured.
class LayerProfiler::Bursts {
 public:
  Bursts(const models::Model& model, const models::Dataset& data, ProfileOptions options)
      : model_(model), options_(std::move(options)), turns_(options_.workers == 1 ? 2 : 1) {
    const OneMathsThread one_thread;
    const models::Model apart = models::untied(model);
    for (int w = 0; w < std::max(options_.workers, turns_); ++w) {
      models_.push_back(std::make_unique<ProfiledModel>(apart, data, options_));
    }
  }

  bool wants_more() const {
    return samples() < options_.samples || measured_ < options_.least_time;
  }

  void run() {
    const bool by_number = options_.least_time == nanoseconds(0);
    burst_ = by_number ? std::min(options_.burst, options_.samples - samples()) : options_.burst;
    turn_ = 0;
    std::vector<std::jthread> threads;
    std::barrier start(static_cast<std::ptrdiff_t>(models_.size()));
    for (int w = 0; w < static_cast<int>(models_.size()); ++w) {
      threads.emplace_back([this, w, &start] {
        use_one_maths_thread();
        start.arrive_and_wait();
        work(w);
      });
    }
    threads.clear();  // joins
    if (failure_) std::rethrow_exception(failure_);
    ++bursts_;
  }

  LayerProfile profile() const {
    return {.model = model_.name,
            .optimizer = options_.optimizer.name,
            .optimizer_slots = options_.optimizer.slots(),
            .micro_batch_size = options_.micro_batch_size,
            .workers = options_.workers,
            .samples = samples(),
            .left_out = bursts_ * options_.warm_up,
            .layers = layer_costs(),
            .input = over(kept_tape_, [](const StepTimes& s) { return s.input; }),
            .target = over(kept_tape_, [](const StepTimes& s) { return s.target; }),
            .loss = over(kept_tape_, [](const StepTimes& s) { return s.loss; }),
            .overhead = over(kept_tape_,
                             [](const StepTimes& s) { return s.forward_call - sum_of(s.forward); }),
            .step = over(kept_tape_, [](const StepTimes& s) { return s.step; })};
  }

 private:
  int samples() const { return static_cast<int>(kept_tape_.size()); }
  /// Steps that keep their tape, then as many the other way.
  int steps() const { return 2 * (options_.warm_up + burst_); }

  void work(int worker) noexcept {
    try {
      if (worker < turns_) {
        for (int step = worker; step < steps() && my_turn(step); step += turns_) {
          if (options_.cancelled()) throw RunError("profile: cancelled");
          take(step, models_[worker]->step(step, step >= steps() / 2));
          give_turn(step + 1);
        }
      } else {
        for (int step = 0; turn_ < steps(); ++step) models_[worker]->step(step, false);
      }
    } catch (...) {
      {
        const std::scoped_lock lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
      give_turn(steps());  // stops the others; the measurement would mean nothing
    }
  }

  /// Waits; false when the burst was stopped.
  bool my_turn(int step) {
    int turn = turn_;
    for (; turn < step; turn = turn_) turn_.wait(turn);
    return turn == step;
  }

  void give_turn(int step) {
    turn_ = step;
    turn_.notify_all();
  }

  void take(int step, StepTimes times) {
    const int half = steps() / 2;
    if (step % half < options_.warm_up) return;
    if (step < half) measured_ += nanoseconds(times.step);
    (step < half ? kept_tape_ : other_way_).push_back(std::move(times));
  }

  std::vector<LayerCost> layer_costs() const {
    const ProfiledModel::TapeBytes tapes = models_.front()->tape_bytes();
    const auto shapes = model_.shapes();
    std::vector<LayerCost> costs;
    for (std::size_t j = 0; j < model_.layers.size(); ++j) {
      LayerCost cost;
      cost.name = model_.layers[j].name;
      const auto over_steps = [j](const std::vector<StepTimes>& steps, Laps StepTimes::*laps) {
        return over(steps, [=](const StepTimes& s) { return (s.*laps)[j].count(); });
      };
      cost.forward = over_steps(kept_tape_, &StepTimes::forward);
      cost.forward_only = over_steps(other_way_, &StepTimes::forward_only);
      cost.backward = over_steps(kept_tape_, &StepTimes::backward);
      cost.input_gradient = over_steps(other_way_, &StepTimes::input_gradient);
      cost.weight_gradient = over_steps(other_way_, &StepTimes::weight_gradient);
      cost.update = over_steps(kept_tape_, &StepTimes::update);
      cost.output_bytes = models_.front()->chain().output_bytes(static_cast<int>(j));
      cost.tape_bytes = tapes.whole[j];
      cost.weight_grad_activation_bytes = tapes.for_weight_gradient[j];
      cost.parameter_bytes = static_cast<std::size_t>(models::parameter_count(
                                 models::untied(model_.layers[j]), shapes[j])) *
                             sizeof(float);
      cost.tied = models::is_tied(model_.layers[j]);
      costs.push_back(std::move(cost));
    }
    return costs;
  }

  const models::Model& model_;
  const ProfileOptions options_;
  const int turns_;  ///< threads that are measured
  std::vector<std::unique_ptr<ProfiledModel>> models_;
  std::vector<StepTimes> kept_tape_, other_way_;
  nanoseconds measured_{0};
  int bursts_ = 0;
  int burst_ = 0;              ///< samples of the burst under way
  std::atomic<int> turn_ = 0;  ///< its step; whoever has the turn may write the samples
  std::mutex mutex_;
  std::exception_ptr failure_;
};

LayerProfiler::LayerProfiler(const models::Model& model, const models::Dataset& data,
                             ProfileOptions options) {
  require(
      options.samples >= 1 && options.burst >= 1 && options.warm_up >= 0 && options.workers >= 1,
      "profile: needs at least 1 sample, 1 in a burst, 0 warm-up steps and 1 worker, not {}, "
      "{}, {} and {}",
      options.samples, options.burst, options.warm_up, options.workers);
  bursts_ = std::make_unique<Bursts>(model, data, std::move(options));
}

LayerProfiler::~LayerProfiler() = default;

bool LayerProfiler::wants_more() const { return bursts_->wants_more(); }
void LayerProfiler::measure() { bursts_->run(); }
LayerProfile LayerProfiler::profile() const { return bursts_->profile(); }

LayerProfile profile_layers(const models::Model& model, const models::Dataset& data,
                            const ProfileOptions& options) {
  LayerProfiler profiler(model, data, options);
  while (profiler.wants_more()) profiler.measure();
  return profiler.profile();
}

}  // namespace unlatch::exec
