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
  Laps forward, forward_only, backward, update;
  std::int64_t input = 0, target = 0, loss = 0, forward_call = 0, step = 0;

  explicit StepTimes(std::size_t layers)
      : forward(layers), forward_only(layers), backward(layers), update(layers) {}
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
      optimizers_.emplace_back(options.optimizer, layer.size());
      sizes_.push_back(layer.size());
    }
    gradient_.resize(weights_.size());
  }

  /// As a stage that keeps its tape: F, loss, B, U. As one that recomputes: F, R, loss, B, U.
  StepTimes step(int number, bool recompute) {
    StepTimes times(sizes_.size());
    const auto start = Clock::now();
    const Tensor input = feed_.input(MicroBatch{number});
    times.input = since(start);
    if (recompute) forward(input, nullptr, times.forward_only);
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
    backward(kept, std::move(gradient), times.backward);
    kept = {};
    update(times.update);
    times.step = since(start);
    return times;
  }

  const Chain& chain() const { return chain_; }

  std::vector<std::size_t> tape_bytes() {
    Kept kept;
    Laps laps(sizes_.size());
    forward(feed_.input(MicroBatch{0}), &kept, laps);
    std::vector<std::size_t> bytes;
    for (const Kept& layer : kept.inner) bytes.push_back(layer.bytes());
    return bytes;
  }

 private:
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

/// The steps of the first worker, while the others do the same work beside it.
class Profiler {
 public:
  Profiler(const models::Model& model, const models::Dataset& data, const ProfileOptions& options)
      : options_(options), start_(options.workers) {
    const OneMathsThread one_thread;
    for (int w = 0; w < options.workers; ++w) {
      models_.push_back(std::make_unique<ProfiledModel>(model, data, options));
    }
  }

  void run() {
    std::vector<std::jthread> threads;
    for (int w = 0; w < options_.workers; ++w) threads.emplace_back([this, w] { work(w); });
    threads.clear();  // joins
    if (failure_) std::rethrow_exception(failure_);
  }

  ProfiledModel& first() { return *models_.front(); }
  std::vector<StepTimes> kept_tape;
  std::vector<StepTimes> recomputed;

 private:
  void work(int worker) noexcept {
    use_one_maths_thread();
    start_.arrive_and_wait();
    try {
      if (worker == 0) {
        measure();
      } else {
        for (int step = 0; !done_; ++step) models_[worker]->step(step, false);
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    // A failed worker stops the others; the measurement would mean nothing.
    if (worker == 0 || failed()) done_ = true;
  }

  bool failed() {
    const std::scoped_lock lock(mutex_);
    return failure_ != nullptr;
  }

  void measure() {
    const int steps = options_.warm_up + options_.samples;
    for (int step = 0; step < 2 * steps && !done_; ++step) {
      if (options_.cancelled()) throw RunError("profile: cancelled");
      (step < steps ? kept_tape : recomputed).push_back(first().step(step, step >= steps));
    }
  }

  const ProfileOptions& options_;
  std::vector<std::unique_ptr<ProfiledModel>> models_;
  std::barrier<> start_;
  std::atomic<bool> done_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

/// The median over the steps of whatever `of` reads from one.
template <class F>
Measurement over(const std::vector<StepTimes>& steps, int warm_up, F of) {
  std::vector<std::int64_t> samples;
  for (const StepTimes& step : steps) samples.push_back(of(step));
  return measurement_of(samples, warm_up);
}

std::int64_t sum_of(const Laps& laps) {
  return std::accumulate(laps.begin(), laps.end(), nanoseconds(0)).count();
}

std::vector<LayerCost> layer_costs(const models::Model& model, Profiler& profiler, int warm_up) {
  const std::vector<std::size_t> tapes = profiler.first().tape_bytes();
  const auto shapes = model.shapes();
  std::vector<LayerCost> costs;
  for (std::size_t j = 0; j < model.layers.size(); ++j) {
    const auto& kept = profiler.kept_tape;
    LayerCost cost;
    cost.name = model.layers[j].name;
    cost.forward = over(kept, warm_up, [j](const StepTimes& s) { return s.forward[j].count(); });
    cost.forward_only = over(profiler.recomputed, warm_up,
                             [j](const StepTimes& s) { return s.forward_only[j].count(); });
    cost.backward = over(kept, warm_up, [j](const StepTimes& s) { return s.backward[j].count(); });
    cost.update = over(kept, warm_up, [j](const StepTimes& s) { return s.update[j].count(); });
    cost.output_bytes = profiler.first().chain().output_bytes(static_cast<int>(j));
    cost.tape_bytes = tapes[j];
    cost.parameter_bytes =
        static_cast<std::size_t>(models::parameter_count(model.layers[j], shapes[j])) *
        sizeof(float);
    costs.push_back(std::move(cost));
  }
  return costs;
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

Measurement measurement_of(std::span<const std::int64_t> samples_ns, int warm_up) {
  require(warm_up >= 0 && static_cast<std::size_t>(warm_up) < samples_ns.size(),
          "profile: {} samples leave none after {} of warm-up; take more", samples_ns.size(),
          warm_up);
  std::vector<std::int64_t> sorted(samples_ns.begin() + warm_up, samples_ns.end());
  std::ranges::sort(sorted);
  return {quantile(sorted, 0.5), quantile(sorted, 0.25), quantile(sorted, 0.75)};
}

LayerProfile profile_layers(const models::Model& model, const models::Dataset& data,
                            const ProfileOptions& options) {
  require(options.samples >= 1 && options.warm_up >= 0 && options.workers >= 1,
          "profile: needs at least 1 sample, 0 warm-up steps and 1 worker, not {}, {} and {}",
          options.samples, options.warm_up, options.workers);
  Profiler profiler(model, data, options);
  profiler.run();
  const auto& kept = profiler.kept_tape;
  const int warm_up = options.warm_up;
  return {.model = model.name,
          .optimizer = options.optimizer.name,
          .micro_batch_size = options.micro_batch_size,
          .workers = options.workers,
          .samples = options.samples,
          .left_out = warm_up,
          .layers = layer_costs(model, profiler, warm_up),
          .input = over(kept, warm_up, [](const StepTimes& s) { return s.input; }),
          .target = over(kept, warm_up, [](const StepTimes& s) { return s.target; }),
          .loss = over(kept, warm_up, [](const StepTimes& s) { return s.loss; }),
          .overhead = over(kept, warm_up,
                           [](const StepTimes& s) { return s.forward_call - sum_of(s.forward); }),
          .step = over(kept, warm_up, [](const StepTimes& s) { return s.step; })};
}

}  // namespace unlatch::exec
