#include "tools/train_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <mutex>

#include "exec/cpu_backend.h"
#include "exec/data_feed.h"
#include "exec/dnn_heads.h"
#include "exec/dnn_stage.h"
#include "exec/executor.h"
#include "exec/head_networks.h"
#include "exec/read_ahead.h"
#include "exec/stage_runner.h"
#include "exec/stream_backend.h"
#include "models/transformer.h"
#include "schedules/error.h"
#include "tools/json_output.h"
#include "tools/measured.h"
#include "tools/model_options.h"
#include "tools/terminal.h"
#include "tools/workload.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {
namespace {

using Clock = std::chrono::steady_clock;

void require_finite(double loss, std::string_view what) {
  if (std::isfinite(loss)) return;
  throw RunError(
      fmt::format("training diverged: {} is {}; lower --lr (or a rate of the schedule itself)",
                  what, std::isnan(loss) ? "not a number" : "infinite"));
}

/// Collects the losses of the micro-batches into one line a batch, in the order of the batches.
/// Replicas call it at the same time and may be batches apart.
class Journal {
 public:
  explicit Journal(const TrainingPlan& plan) : plan_(plan) {
    if (plan.metrics_file) file_.emplace(*plan.metrics_file);
  }

  void add(MicroBatch i, const exec::Loss& loss) {
    const std::lock_guard lock(mutex_);
    const int batch = i.value / plan_.shape.micro_batches;
    require_finite(loss.loss, fmt::format("the loss of batch {}", batch));
    Sum& sum = open_[batch];
    sum.loss += loss.loss * loss.samples;
    sum.correct += loss.correct;
    sum.samples += loss.samples;
    ++sum.parts;
    while (!open_.empty() && open_.begin()->first == next_batch_ &&
           open_.begin()->second.parts == plan_.shape.micro_batches) {
      end_batch(open_.begin()->second);
      open_.erase(open_.begin());
      ++next_batch_;
    }
  }

  void finish() {
    if (file_) file_->commit();
  }
  /// The file is no affair of the task that happened to write to it.
  void rethrow_failed_write() const {
    if (failed_write_) std::rethrow_exception(failed_write_);
  }
  double last_loss() const { return last_loss_; }

 private:
  /// Over the micro-batches of one batch.
  struct Sum {
    double loss = 0;
    int correct = 0, samples = 0, parts = 0;
  };

  void end_batch(const Sum& sum) {
    last_loss_ = sum.loss / sum.samples;
    const double accuracy = static_cast<double>(sum.correct) / sum.samples;
    const auto now = Clock::now();
    if (file_) {
      const Json line{{"step", next_batch_ + 1},
                      {"batch", next_batch_},
                      {"epoch", next_batch_ / plan_.batches_per_epoch},
                      {"loss", last_loss_},
                      {"accuracy", accuracy},
                      {"time_ms", to_ms(std::chrono::duration_cast<nanoseconds>(now - begin_))},
                      {"simulated_ms", nullptr}};
      write(line);
    }
    constexpr std::chrono::seconds between_remarks{2};
    if (!progress_is_shown() || now - said_ < between_remarks) return;
    said_ = now;
    say(fmt::format("batch {} of {}: loss {:.4f}, accuracy {:.1f}%", next_batch_ + 1,
                    plan_.shape.batches, last_loss_, accuracy * 100));
  }

  void write(const Json& line) {
    try {
      *file_ << line.dump() << '\n';
    } catch (const Error&) {
      failed_write_ = std::current_exception();
      throw;
    }
  }

  const TrainingPlan& plan_;
  std::mutex mutex_;
  std::optional<AtomicFile> file_;
  std::exception_ptr failed_write_;
  Clock::time_point begin_ = Clock::now(), said_ = begin_;
  std::map<int, Sum> open_;  ///< batches that have begun and not been reported
  int next_batch_ = 0;       ///< to report
  double last_loss_ = 0;
};

/// --epochs or --steps as batches.
int asked_batches(const Arguments& arguments, int per_epoch) {
  require(!arguments.has("epochs") || !arguments.has("steps"),
          "--epochs and --steps both say how long to train; give one of them");
  constexpr int most = 100'000'000;
  if (arguments.has("steps")) return arguments.whole("steps", 1, 1, most);
  const int epochs = arguments.whole("epochs", 1, 1, most / std::max(per_epoch, 1));
  return epochs * per_epoch;
}

void require_batch_fits(const Arguments& arguments, const TrainingPlan& plan, const Shape& shape) {
  const int asked_parts = shape.micro_batches;
  const int samples = plan.data.train.samples();
  require(plan.batch_size <= samples, "{} {}: the training data of {} hold {} samples",
          arguments.place("batch-size"), plan.batch_size, plan.data_name, samples);
  require(plan.batch_size % asked_parts == 0,
          "--batch-size {} is not divisible by {} micro-batches{}; choose a multiple of {}",
          plan.batch_size, asked_parts,
          shape.replicas > 1 ? fmt::format(" on {} replicas together", shape.replicas) : "",
          asked_parts);
}

}  // namespace

TrainingPlan read_plan(const Arguments& arguments) {
  require(!arguments.yes("uneven", false), "--uneven yes is not available in this version");
  const ScheduleSpec spec = asked_schedules(arguments, 1).front();
  if (const auto name = arguments.text("model")) models::require_trainable(*name);
  const auto data = arguments.text("data");
  require(data.has_value(), "--data SPEC is needed, for example digits or fashion-mnist");
  models::DataSplit split = models::load_data(*data);
  models::Model model = asked_model_for(arguments, split.train);
  TrainingPlan plan{.spec = spec,
                    .shape = {},
                    .model = std::move(model),
                    .data = std::move(split),
                    .data_name = *data,
                    .batch_size = arguments.whole("batch-size", 64),
                    .optimizer = asked_optimizer(arguments),
                    .rate = {},
                    .seed = arguments.seed(),
                    .threads = asked_threads(arguments),
                    .metrics_file = arguments.text("metrics")};
  Shape shape;
  const Shape usual = usual_shape(spec, usual_stages);
  read_stages(arguments, spec.pipeline().chunks.usual, usual.stages, shape);
  shape.micro_batches = arguments.whole("microbatches", usual.micro_batches);
  shape.drain = arguments.yes("drain", usual.drain);
  shape.replicas = arguments.whole("replicas", usual.replicas, 1, 1 << 10);
  require_batch_fits(arguments, plan, spec.effective(shape));
  plan.batches_per_epoch = plan.data.train.samples() / plan.batch_size;
  shape.batches = asked_batches(arguments, plan.batches_per_epoch);
  plan.shape = spec.effective(shape);
  require_buildable(plan.shape, spec);
  plan.device = asked_device(arguments, plan.shape.ranks());
  plan.augmentation = asked_augmentation(arguments);
  plan.statistics = asked_statistics(arguments);
  const double rate = arguments.real("lr", 0.1, 0);
  if (rate == 0) arguments.refuse("lr", *arguments.text("lr"), "must be greater than 0");
  plan.rate = models::RateSchedule::parse(arguments.text("lr-schedule", "constant"), rate);
  return plan;
}

bool recompute_is_paid(const TrainingPlan& plan, const TaskGraph& graph) {
  if (plan.device) return true;
  const int workers = plan.threads > 0 ? plan.threads : exec::CpuBackend::default_workers(graph);
  return exec::CpuBackend::lanes_share_a_worker(graph, workers);
}

std::vector<models::StageRange> flop_partition(const Arguments& arguments, const TrainingPlan& plan,
                                               const TaskGraph& graph) {
  std::vector<bool> pays = replaying_stages(graph);
  if (!recompute_is_paid(plan, graph)) pays.assign(pays.size(), false);
  const models::ModelFacts facts = models::facts_of(plan.model, sizeof(float));
  return asked_partition(
      arguments, prices_of(models::training_flops(facts), models::forward_flops(facts), pays));
}

MemorySizes memory_sizes_of(const TrainingPlan& plan, const LocalGradients& local,
                            const std::vector<models::StageRange>& ranges) {
  constexpr std::int64_t float_bytes = sizeof(float);
  const auto shapes = plan.model.shapes();
  const auto in_precision = [&](std::int64_t bytes) {  // activations may be shorter on a GPU
    const auto precision = plan.device ? plan.device->settings.precision : exec::Precision::fp32;
    return bytes * static_cast<std::int64_t>(exec::bytes_of(precision)) / float_bytes;
  };
  MemorySizes sizes;
  for (const models::StageRange& range : ranges) {
    std::int64_t for_weights = 0, weights = 0;
    for (int j = range.first; j <= range.last; ++j) {
      const auto at = static_cast<std::size_t>(j);
      for_weights += models::weight_grad_activation_bytes(plan.model.layers[at], shapes[at]);
      weights += models::parameter_count(plan.model.layers[at], shapes[at]) * float_bytes;
    }
    const auto first = static_cast<std::size_t>(range.first);
    const std::int64_t tape = models::tape_bytes(plan.model.layers_of(range), shapes[first]);
    sizes.activation.push_back(in_precision(tape) * plan.piece_size());
    sizes.weight_grad_activation.push_back(in_precision(for_weights) * plan.piece_size());
    sizes.input.push_back(in_precision(shapes[first].elements() * float_bytes) * plan.piece_size());
    sizes.weight.push_back(weights);
    sizes.gradient.push_back(weights);
    sizes.optimizer.push_back(plan.optimizer.momentum > 0 ? weights : 0);
    const std::int64_t output = shapes[static_cast<std::size_t>(range.last) + 1].elements();
    sizes.output.push_back(in_precision(output * float_bytes) * plan.piece_size());
    const bool has_feedback = local.source == GradientSource::feedback;
    const std::int64_t error = has_feedback ? shapes.back().elements() : output;
    sizes.output_gradient.push_back(in_precision(error * float_bytes) * plan.piece_size());
    if (&range == &ranges.back()) break;  // no head on the last stage
    const exec::HeadSize head = exec::head_size(
        local, shapes[static_cast<std::size_t>(range.last) + 1], plan.model.classes);
    const bool keeps_velocity =
        local.source == GradientSource::local_head && plan.optimizer.momentum > 0;
    sizes.weight.back() += head.weights * float_bytes;
    sizes.gradient.back() += head.gradient * float_bytes;
    sizes.optimizer.back() += keeps_velocity ? head.weights * float_bytes : 0;
  }
  return sizes.for_copies(plan.shape.copies);
}

namespace {

/// What training leaves, on whatever device.
struct Trained {
  Timeline timeline;
  TrainedModel model;
  int workers = 0;
  MeasuredMemory memory;
};

MeasuredMemory memory_of(const exec::StageRunner& runner, int ranks) {
  MeasuredMemory memory{.sizes = runner.sizes(), .kept = {}, .pools = {}};
  for (const Rank r : up_to<Rank>(ranks)) memory.kept.push_back(runner.kept().of(r));
  return memory;
}

std::function<double(int)> rate_of_batch(const TrainingPlan& plan) {
  return [&plan](int batch) {
    return plan.rate.at_batch(batch, plan.shape.batches, plan.batches_per_epoch);
  };
}

exec::DnnRun run_of(const TrainingPlan& plan) {
  return {.micro_batch_size = plan.piece_size(), .optimizer = plan.optimizer, .seed = plan.seed};
}

Trained train_on_cpu(const TrainingPlan& plan, const TaskGraph& graph,
                     const std::vector<models::StageRange>& ranges, exec::Feed& feed,
                     const exec::Observer& observer) {
  std::vector<std::vector<std::unique_ptr<exec::DnnStageModule>>> copies;
  std::vector<std::unique_ptr<exec::LocalHead>> heads;
  std::vector<exec::StageModule*> modules;
  std::vector<exec::LocalHead*> lent_heads;
  const exec::DnnRun run = run_of(plan);
  for (int copy = 0; copy < plan.shape.copies; ++copy) {
    copies.push_back(exec::make_dnn_stages(plan.model, ranges, run));
    for (const auto& stage : copies.back()) modules.push_back(stage.get());
    for (auto& head : exec::make_dnn_heads(graph.learning().local_gradients, copies.back(), run)) {
      lent_heads.push_back(head.get());
      heads.push_back(std::move(head));
    }
  }
  exec::StageRunner runner(graph, modules, feed, rate_of_batch(plan), observer, lent_heads,
                           plan.statistics);
  exec::CpuBackend backend(graph, runner, {.workers = plan.threads});
  Trained trained{.timeline = exec::run(graph, backend),
                  .model = {},
                  .workers = backend.workers(),
                  .memory = {}};
  trained.memory = memory_of(runner, graph.ranks());
  std::vector<exec::Tensor> weights;
  for (const Stage k : up_to<Stage>(plan.shape.stages_a_copy())) {
    weights.push_back(runner.weights(k));
  }
  // Running statistics are those of the first copy's share of the data.
  trained.model = {exec::joined_weights(weights), exec::joined_statistics(copies.front())};
  return trained;
}

Trained train_on_device(const TrainingPlan& plan, const TaskGraph& graph,
                        const std::vector<models::StageRange>& ranges, exec::Feed& feed,
                        const exec::Observer& observer) {
  const auto device = exec::cuda_library().start(graph, plan.model, ranges, run_of(plan),
                                                 plan.device->settings, feed);
  exec::StageRunner runner(graph, device->modules(), device->feed(), rate_of_batch(plan), observer,
                           device->heads(), plan.statistics);
  exec::StreamBackend backend(graph, device->order(), runner);
  Trained trained{.timeline = exec::run(graph, backend), .model = {}, .workers = 1, .memory = {}};
  trained.memory = memory_of(runner, graph.ranks());
  for (const Rank r : up_to<Rank>(graph.ranks())) {
    trained.memory.pools.push_back(device->memory_of(r));
  }
  for (const Stage k : up_to<Stage>(plan.shape.stages_a_copy())) {
    const std::vector<float> weights = device->to_host(runner.weights(k));
    auto& all = trained.model.weights;
    all.insert(all.end(), weights.begin(), weights.end());
  }
  trained.model.statistics = device->statistics();
  for (const std::string& remark : device->remarks()) say(remark);
  return trained;
}

/// Null without augmentation: drawing a batch as it is takes next to nothing.
std::unique_ptr<exec::Feed> reading_ahead(const TrainingPlan& plan, exec::Feed& feed) {
  if (!plan.augmentation.any()) return nullptr;
  constexpr std::int64_t most_bytes = std::int64_t{512} << 20;
  const std::int64_t bytes =
      plan.model.input.elements() * plan.piece_size() * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t of_two_steps = std::max(2 * plan.shape.micro_batches, 4);
  const std::int64_t most = std::max<std::int64_t>(std::min(of_two_steps, most_bytes / bytes), 2);
  return std::make_unique<exec::ReadAheadFeed>(feed, plan.shape.all_micro_batches(),
                                               static_cast<int>(most));
}

}  // namespace

TrainingResult train(const TrainingPlan& plan, const TaskGraph& graph,
                     const std::vector<models::StageRange>& ranges) {
  exec::DataFeed data_feed(plan.data.train, plan.model.input, plan.batch_size,
                           plan.shape.micro_batches, plan.seed, plan.augmentation);
  const std::unique_ptr<exec::Feed> ahead = reading_ahead(plan, data_feed);
  exec::Feed& feed = ahead ? *ahead : data_feed;
  Journal journal(plan);
  const exec::Observer observer{
      .loss = [&](MicroBatch i, const exec::Loss& loss) { journal.add(i, loss); }, .update = {}};
  Trained trained;
  try {
    trained = plan.device ? train_on_device(plan, graph, ranges, feed, observer)
                          : train_on_cpu(plan, graph, ranges, feed, observer);
  } catch (const RunError&) {
    journal.rethrow_failed_write();
    throw;
  }
  journal.finish();
  TrainingResult result{.timeline = std::move(trained.timeline),
                        .trained = std::move(trained.model),
                        .workers = trained.workers,
                        .last_loss = journal.last_loss(),
                        .test = {},
                        .memory = std::move(trained.memory)};
  result.test = exec::evaluate(plan.model, result.trained.weights, result.trained.statistics,
                               plan.data.test, {.threads = result.workers});
  // The last updates of all stages come after the last loss that the journal saw.
  require_finite(result.test.loss, fmt::format("the test loss after step {}", plan.shape.batches));
  return result;
}

}  // namespace unlatch::tools
