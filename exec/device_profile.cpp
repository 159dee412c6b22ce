#include "exec/device_profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "exec/data_feed.h"
#include "exec/executor.h"
#include "exec/layer_bytes.h"
#include "exec/profile_steps.h"
#include "exec/stage_runner.h"
#include "exec/stream_backend.h"
#include "models/partition.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

using std::chrono::nanoseconds;
using Samples = std::vector<std::int64_t>;  ///< in ns, one a step

/// What the spans of one layer's tasks lasted.
struct LayerTimes {
  Samples forward, backward, update;                                 ///< tapes kept
  Samples forward_only, recompute, input_gradient, weight_gradient;  ///< the other way

  /// Null for what counts in the other half.
  Samples* of(Op op, bool other_way) {
    switch (op) {
      case Op::forward:
        return other_way ? &forward_only : &forward;
      case Op::recompute:
        return &recompute;
      case Op::backward:
        return &backward;
      case Op::backward_input:
        return &input_gradient;
      case Op::backward_weight:
        return &weight_gradient;
      default:
        return other_way ? nullptr : &update;
    }
  }
};

/// Sample by sample.
Samples difference(const Samples& of, const Samples& from) {
  Samples rest(of.size());
  std::ranges::transform(of, from, rest.begin(), std::minus());
  return rest;
}

/// Noise makes a small difference negative.
Measurement at_least_zero(Measurement time) {
  for (std::int64_t* ns : {&time.mean_ns, &time.median_ns, &time.lower_ns, &time.upper_ns}) {
    *ns = std::max<std::int64_t>(*ns, 0);
  }
  return time;
}

class DeviceProfiler {
 public:
  DeviceProfiler(const DeviceLibrary& library, const DeviceSettings& where,
                 const models::Model& model, const models::Dataset& data,
                 const ProfileOptions& options)
      : library_(library),
        where_(where),
        model_(model),
        options_(options),
        run_{.micro_batch_size = options.micro_batch_size,
             .optimizer = options.optimizer,
             .seed = options.seed},
        layers_(static_cast<int>(model.layers.size())),
        ranges_(models::uniform_partition(layers_, layers_)),
        feed_(data, model.input, options.micro_batch_size, 1, options.seed),
        times_(model.layers.size()) {}

  void measure_bytes() {
    const TaskGraph graph = split_step_graph(layers_);
    const auto device = library_.start(graph, model_, ranges_, run_, where_, feed_);
    LayerBytesRunner runner(device->modules(), device->feed());
    StreamBackend backend(graph, device->order(), runner);
    exec::run(graph, backend);
    bytes_ = runner.bytes();
  }

  void measure_times(int samples) {
    const ProfileSteps steps{layers_, options_.warm_up, samples};
    const TaskGraph graph = steps.graph();
    const auto device = library_.start(graph, model_, ranges_, run_, where_, feed_);
    // At a rate of almost nothing: the work is the same, and the weights stay sane for ever.
    StageRunner runner(graph, device->modules(), device->feed(), [](int) { return 1e-6; });
    StreamBackend backend(graph, device->order(), runner);
    take(graph, exec::run(graph, backend), steps);
    left_out_ += options_.warm_up;
  }

  /// Of the steps that keep their tapes.
  nanoseconds measured() const {
    return nanoseconds(std::accumulate(step_.begin(), step_.end(), std::int64_t{0}));
  }
  /// How many steps take so long, by those measured.
  int steps_in(nanoseconds time) const {
    constexpr double most = 500;  // of one run
    const double share =
        static_cast<double>(time.count()) / static_cast<double>(measured().count());
    return static_cast<int>(
        std::clamp(std::ceil(share * static_cast<double>(step_.size())), 1.0, most));
  }

  LayerProfile profile() const {
    const LayerTimes& first = times_.front();
    const LayerTimes& last = times_.back();
    const Samples input = difference(first.forward, first.recompute);
    const Samples loss = layers_ > 1 ? difference(last.forward, last.recompute) : Samples{0};
    LayerProfile profile{.model = model_.name,
                         .optimizer = options_.optimizer.name,
                         .optimizer_slots = options_.optimizer.slots(),
                         .micro_batch_size = options_.micro_batch_size,
                         .samples = static_cast<int>(step_.size()),
                         .left_out = left_out_,
                         .layers = {},
                         .input = at_least_zero(measurement_of(input)),
                         .target = {},
                         .loss = at_least_zero(measurement_of(loss)),
                         .overhead = {},
                         .step = measurement_of(step_)};
    for (int j = 0; j < layers_; ++j) {
      const bool is_first = j == 0, is_last = j + 1 == layers_;
      const LayerTimes& times = times_[static_cast<std::size_t>(j)];
      const Samples bare = is_first  ? difference(times.forward_only, input)
                           : is_last ? difference(times.forward_only, loss)
                                     : times.forward_only;
      profile.layers.push_back(
          cost_of(j, is_first || is_last ? times.recompute : times.forward, bare));
    }
    return profile;
  }

 private:
  void take(const TaskGraph& graph, const Timeline& timeline, const ProfileSteps& steps) {
    nanoseconds start{0};
    for (const TaskId id : graph.ids()) {  // one lane: as they ran
      const Task& task = graph.task(id);
      const MicroBatch n = task.micro_batch;
      if (steps.left_out(n)) continue;
      const Span& span = timeline[id];
      const auto j = static_cast<std::size_t>(task.stage.value);
      Samples* samples = times_[j].of(task.op, steps.other_way(n));
      if (samples != nullptr) samples->push_back(span.length().count());
      if (steps.other_way(n)) continue;
      if (task.op == Op::forward && j == 0) start = span.start;
      if (task.op == Op::update && j + 1 == times_.size()) {
        step_.push_back((span.end - start).count());
      }
    }
  }

  LayerCost cost_of(int layer, const Samples& forward, const Samples& forward_only) const {
    const auto j = static_cast<std::size_t>(layer);
    const LayerTimes& times = times_[j];
    return {.name = model_.layers[j].name,
            .forward = measurement_of(forward),
            .forward_only = at_least_zero(measurement_of(forward_only)),
            .backward = measurement_of(times.backward),
            .input_gradient = measurement_of(times.input_gradient),
            .weight_gradient = measurement_of(times.weight_gradient),
            .update = measurement_of(times.update),
            .output_bytes = bytes_[j].output,
            .tape_bytes = bytes_[j].tape,
            .weight_grad_activation_bytes = bytes_[j].for_weight_gradient,
            .parameter_bytes = bytes_[j].parameters};
  }

  const DeviceLibrary& library_;
  const DeviceSettings& where_;
  const models::Model& model_;
  const ProfileOptions& options_;
  DnnRun run_;
  const int layers_;
  const std::vector<models::StageRange> ranges_;  ///< a stage a layer
  DataFeed feed_;
  std::vector<LayerBytes> bytes_;
  std::vector<LayerTimes> times_;  ///< by layer
  Samples step_;
  int left_out_ = 0;
};

}  // namespace

LayerProfile profile_layers_on(const DeviceLibrary& library, const DeviceSettings& where,
                               const models::Model& model, const models::Dataset& data,
                               const ProfileOptions& options) {
  require(options.samples >= 1 && options.warm_up >= 0,
          "profile: needs at least 1 sample and 0 warm-up steps, not {} and {}", options.samples,
          options.warm_up);
  DeviceProfiler profiler(library, where, model, data, options);
  profiler.measure_bytes();
  profiler.measure_times(options.samples);
  auto left = options.least_time - profiler.measured();
  for (; left > nanoseconds(0); left = options.least_time - profiler.measured()) {
    if (options.cancelled()) throw RunError("profile: cancelled");
    profiler.measure_times(profiler.steps_in(left));
  }
  return profiler.profile();
}

}  // namespace unlatch::exec
