#include "exec/handover.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "exec/data_feed.h"
#include "exec/dnn_chain.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

using std::chrono::nanoseconds;

constexpr int threads = 2;

/// Consecutive layers with the memory of a stage of their own.
struct Segment {
  int first;   ///< layer of the model
  int thread;  ///< that runs it
  Chain chain;
  std::vector<float> weights, gradient, statistics;
  BufferPool pool;
  Workspace workspace;
  Kept kept;

  Segment(const models::Model& model, const models::StageRange& range, int runs_on,
          const Place& input, std::uint64_t seed)
      : first(range.first),
        thread(runs_on),
        chain(model.layers_of(range), input),
        weights(models::initial_weights(model, range, seed)),
        gradient(weights.size()),
        statistics(models::initial_statistics(model, range)) {}

  Tensor forward(const Tensor& input, Laps& laps) {
    Call call(chain.input().engine, pool, workspace);
    return chain
        .forward({weights.data(), nullptr, statistics.data()}, {input, false}, &kept, call, &laps)
        .tensor;
  }
  Tensor backward(const Tensor& output_gradient, Laps& laps) {
    Call call(chain.input().engine, pool, workspace);
    Tensor result = chain
                        .backward({weights.data(), gradient.data(), nullptr}, kept,
                                  {output_gradient, false}, first > 0, call, &laps)
                        .tensor;
    kept = {};
    return result;
  }
};

/// The times of one layer, sample by sample.
struct LayerSamples {
  std::vector<std::int64_t> forward, backward;
};

constexpr int width = 3;

/// Segments of `width` layers behind a first one of `begin`.
std::vector<models::StageRange> segments_of(int layers, int begin) {
  std::vector<models::StageRange> ranges;
  for (int first = 0; first < layers;) {
    const int last = std::min(first + (first == 0 ? begin : width), layers) - 1;
    ranges.push_back({first, last});
    first = last + 1;
  }
  return ranges;
}

double mean_of(const std::vector<std::int64_t>& samples) {
  return static_cast<double>(measurement_of(samples).mean_ns);
}

}  // namespace

/// The model once or twice, each time cut in some way; steps take turns between these lines.
class HandoverProfiler::Arrangement {
 public:
  Arrangement(const models::Model& model, const models::Dataset& data,
              const ProfileOptions& options)
      : options_(options),
        feed_(data, model.input, options.micro_batch_size, 1, options.seed),
        samples_(model.layers.size()) {}

  /// `thread_of` says which thread runs a segment.
  template <class F>
  void add_line(const models::Model& model, const std::vector<models::StageRange>& ranges,
                F thread_of) {
    const OneMathsThread one_thread;
    Place place{dnnl::engine(dnnl::engine::kind::cpu, 0), Mode::training, options_.micro_batch_size,
                model.input, plain_layout(options_.micro_batch_size, model.input)};
    auto& line = lines_.emplace_back();
    for (const models::StageRange& range : ranges) {
      const int thread = thread_of(static_cast<int>(line.size()));
      line.push_back(std::make_unique<Segment>(model, range, thread, place, options_.seed));
      place = line.back()->chain.output();
    }
  }

  /// Steps of both threads; returns the time of those that count.
  nanoseconds run(int steps) {
    plan(options_.warm_up + steps);
    turn_ = 0;
    {
      std::vector<std::jthread> running;
      for (int t = 0; t < threads; ++t) running.emplace_back([this, t] { work(t); });
    }
    if (failure_) std::rethrow_exception(failure_);
    return measured_;
  }

  const LayerSamples& samples(int layer) const { return samples_[layer]; }
  const std::vector<std::unique_ptr<Segment>>& first_line() const { return lines_.front(); }

 private:
  struct Action {
    Segment* segment;
    bool forward;
    int step;
  };

  void plan(int steps) {
    actions_.clear();
    measured_ = nanoseconds(0);
    for (int step = 0; step < steps; ++step) {
      const auto& line = lines_[step % lines_.size()];
      for (const auto& segment : line) actions_.push_back({segment.get(), true, step});
      for (std::size_t s = line.size(); s-- > 0;) actions_.push_back({line[s].get(), false, step});
    }
  }

  void work(int thread) noexcept {
    const int all = static_cast<int>(actions_.size());
    try {
      use_one_maths_thread();
      for (int i = 0; i < all; ++i) {
        if (actions_[i].segment->thread != thread) continue;
        for (int turn = turn_; turn < i; turn = turn_) turn_.wait(turn);
        if (turn_ > i) return;  // the other thread failed
        act(actions_[i]);
        give_turn(i + 1);
      }
    } catch (...) {
      {
        const std::scoped_lock lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
      give_turn(all);
    }
  }

  void give_turn(int turn) {
    turn_ = turn;
    turn_.notify_all();
  }

  /// Only whoever has the turn gets here. The output stands for its gradient, which is as large.
  void act(const Action& action) {
    if (options_.cancelled()) throw RunError("profile: cancelled");
    Segment& segment = *action.segment;
    Laps laps(segment.chain.layers());
    if (action.forward) {
      if (segment.first == 0) handed_ = feed_.input(MicroBatch{action.step});
      handed_ = segment.forward(handed_, laps);
    } else {
      handed_ = segment.backward(handed_, laps);
    }
    if (action.step < options_.warm_up) return;
    for (std::size_t j = 0; j < laps.size(); ++j) {
      LayerSamples& samples = samples_[segment.first + j];
      (action.forward ? samples.forward : samples.backward).push_back(laps[j].count());
      measured_ += laps[j];
    }
  }

  const ProfileOptions options_;
  DataFeed feed_;
  std::vector<std::vector<std::unique_ptr<Segment>>> lines_;
  std::vector<LayerSamples> samples_;  ///< by layer
  std::vector<Action> actions_;        ///< of the burst under way
  Tensor handed_;                      ///< from one action to the next
  nanoseconds measured_{0};
  std::atomic<int> turn_ = 0;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

HandoverProfiler::HandoverProfiler(const models::Model& model, const models::Dataset& data,
                                   const ProfileOptions& options)
    : options_(options) {
  const int layers = static_cast<int>(model.layers.size());
  for (int a = 0; a <= width; ++a) {
    arrangements_.push_back(std::make_unique<Arrangement>(model, data, options));
  }
  for (int t = 0; t < threads; ++t) {
    arrangements_[0]->add_line(model, {{0, layers - 1}}, [t](int) { return t; });
  }
  for (int begin = 1; begin <= width; ++begin) {
    arrangements_[begin]->add_line(model, segments_of(layers, begin),
                                   [](int segment) { return segment % threads; });
  }
}

HandoverProfiler::~HandoverProfiler() = default;

bool HandoverProfiler::wants_more() const {
  return samples_ < options_.samples || measured_ < options_.least_time;
}

void HandoverProfiler::measure() {
  const bool by_number = options_.least_time == std::chrono::nanoseconds(0);
  const int steps =
      by_number ? std::min(options_.burst, options_.samples - samples_) : options_.burst;
  for (const auto& arrangement : arrangements_) measured_ += arrangement->run(steps);
  samples_ += steps;
}

std::vector<HandoverCost> HandoverProfiler::costs() const {
  const auto& whole = *arrangements_[0];
  std::vector<HandoverCost> costs(whole.first_line().front()->chain.layers());
  for (std::size_t a = 1; a < arrangements_.size(); ++a) {
    const auto longer = [&](int first, int end, std::vector<std::int64_t> LayerSamples::*way) {
      double sum = 0;
      for (int j = first; j < end; ++j) {
        sum += mean_of(arrangements_[a]->samples(j).*way) - mean_of(whole.samples(j).*way);
      }
      return std::max(0.0, sum);
    };
    // A layer that works in place writes where the one before it has written first.
    const auto& line = arrangements_[a]->first_line();
    for (std::size_t s = 0; s < line.size(); ++s) {
      const int first = line[s]->first;
      const int end = first + line[s]->chain.layers();
      if (s > 0) {
        costs[first].forward_in = longer(first, first + 1, &LayerSamples::forward);
        costs[first].backward_out =
            longer(first, std::max(first + 1, end - 1), &LayerSamples::backward);
      }
      if (s + 1 < line.size()) {
        costs[end - 1].forward_out = longer(s > 0 ? first + 1 : first, end, &LayerSamples::forward);
        costs[end - 1].backward_in = longer(end - 1, end, &LayerSamples::backward);
      }
    }
  }
  return costs;
}

}  // namespace unlatch::exec
