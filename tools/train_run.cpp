#include "tools/train_run.h"

#include <algorithm>
#include <functional>

#include "exec/cpu_backend.h"
#include "exec/data_feed.h"
#include "exec/dnn_heads.h"
#include "exec/dnn_stage.h"
#include "exec/executor.h"
#include "exec/head_networks.h"
#include "exec/read_ahead.h"
#include "exec/stage_runner.h"
#include "exec/stream_backend.h"
#include "models/tied_head.h"
#include "schedules/error.h"
#include "tools/checkpointed_run.h"
#include "tools/measured.h"
#include "tools/model_options.h"
#include "tools/terminal.h"
#include "tools/test_curve.h"
#include "tools/train_journal.h"

namespace unlatch::tools {

bool recompute_is_paid(const TrainingPlan& plan, const TaskGraph& graph) {
  if (plan.device) return true;
  const int workers = plan.threads > 0 ? plan.threads : exec::CpuBackend::default_workers(graph);
  return exec::CpuBackend::lanes_share_a_worker(graph, workers);
}

std::vector<models::StageRange> work_partition(const Arguments& arguments, const TrainingPlan& plan,
                                               const TaskGraph& graph) {
  std::vector<bool> pays = replaying_stages(graph);
  if (!recompute_is_paid(plan, graph)) pays.assign(pays.size(), false);
  const models::ModelFacts facts = models::facts_of(plan.model, sizeof(float));
  return asked_partition(
      arguments, prices_of(models::training_work(facts), models::forward_work(facts), pays));
}

MemorySizes memory_sizes_of(const TrainingPlan& plan, const LocalGradients& local,
                            const std::vector<models::StageRange>& ranges) {
  constexpr std::int64_t float_bytes = sizeof(float);
  const auto shapes = plan.model.shapes();
  const auto in_precision = [&](std::int64_t bytes) {  // activations may be shorter on a GPU
    const auto precision = plan.device ? plan.device->settings.precision : exec::Precision::fp32;
    return bytes * static_cast<std::int64_t>(exec::bytes_of(precision)) / float_bytes;
  };
  const std::int64_t piece = plan.piece_size();
  MemorySizes sizes;
  for (const models::StageRange& range : ranges) {
    const auto first = static_cast<std::size_t>(range.first);
    const std::vector<models::Layer> layers = plan.model.layers_of(range);
    std::int64_t for_weights = 0, weights = 0;
    for (std::size_t j = 0; j < layers.size(); ++j) {
      for_weights += models::weight_grad_activation_bytes(layers[j], shapes[first + j]);
      weights += models::parameter_count(layers[j], shapes[first + j]) * float_bytes;
    }
    const std::int64_t tape = models::tape_bytes(layers, shapes[first]);
    const std::int64_t tied = models::tied_floats(plan.model, range) * float_bytes;
    sizes.activation.push_back(in_precision(tape) * piece);
    sizes.weight_grad_activation.push_back(in_precision(for_weights) * piece);
    sizes.input.push_back(in_precision(shapes[first].elements() * float_bytes) * piece);
    sizes.weight.push_back(weights);
    sizes.gradient.push_back(weights + tied);
    sizes.optimizer.push_back(plan.optimizer.slots() * weights);
    const std::int64_t output = shapes[static_cast<std::size_t>(range.last) + 1].elements();
    sizes.output.push_back(in_precision(output * float_bytes) * piece);
    const bool has_feedback = local.source == GradientSource::feedback;
    const std::int64_t error = has_feedback ? shapes.back().elements() : output;
    sizes.output_gradient.push_back(in_precision(error * float_bytes) * piece);
    if (&range == &ranges.back()) break;  // no head on the last stage
    const exec::HeadSize head = exec::head_size(
        local, shapes[static_cast<std::size_t>(range.last) + 1], plan.model.classes);
    const int slots = local.source == GradientSource::local_head ? plan.optimizer.slots() : 0;
    sizes.weight.back() += head.weights * float_bytes;
    sizes.gradient.back() += head.gradient * float_bytes;
    sizes.optimizer.back() += slots * head.weights * float_bytes;
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
  CheckpointSummary checkpoints;
};

MeasuredMemory memory_of(const exec::StageRunner& runner, int ranks) {
  MeasuredMemory memory{.sizes = runner.sizes(), .kept = {}, .pools = {}};
  for (const Rank r : up_to<Rank>(ranks)) memory.kept.push_back(runner.kept().of(r));
  return memory;
}

std::function<double(int)> rate_of_batch(const TrainingPlan& plan) {
  return [&plan](int batch) { return plan.rate_of(batch); };
}

exec::DnnRun run_of(const TrainingPlan& plan) {
  const std::vector<int> sizes = plan.piece_sizes();
  return {.micro_batch_size = sizes.front(),
          .optimizer = plan.optimizer,
          .seed = plan.seed,
          .other_sizes = {sizes.begin() + 1, sizes.end()}};
}

CheckpointedRun run_on_cpu(const TrainingPlan& plan, const TaskGraph& graph,
                           const CheckpointRequest& checkpoints, const RunState& state) {
  const exec::CpuOptions options{.workers = plan.threads};
  if (!checkpoints.is_empty()) {
    return run_with_checkpoints(checkpoints, graph, state, options);
  }
  exec::CpuBackend backend(graph, state.runner, options);
  return {.run = {exec::run(graph, backend), backend.workers()}, .summary = {}};
}

Trained train_on_cpu(const TrainingPlan& plan, const TaskGraph& graph,
                     const std::vector<models::StageRange>& ranges,
                     const CheckpointRequest& checkpoints, exec::Feed& feed,
                     exec::Observer observer, TrainJournal& journal, TestCurve* curve) {
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
  if (curve != nullptr) {
    observer.update = [&](Stage k, int version, const exec::Tensor& weights) {
      const auto& first = copies.front();
      const auto stage = static_cast<std::size_t>(k.value);
      if (stage < first.size()) curve->note(k, version, weights, first[stage]->statistics());
    };
  }
  if (plan.clips_whole_model()) {
    observer.norm = [&](Stage k, int batch, double norm) {
      if (k == Stage{0}) journal.add_norm(batch, norm);  // the same on all
    };
  }
  exec::StageRunner runner(graph, modules, feed, rate_of_batch(plan), std::move(observer),
                           lent_heads, plan.statistics, plan.clip);
  CheckpointedRun ran = run_on_cpu(plan, graph, checkpoints, {runner, journal, curve});
  Trained trained{.timeline = std::move(ran.run.timeline),
                  .model = {},
                  .workers = ran.run.workers,
                  .memory = {},
                  .checkpoints = ran.summary};
  trained.memory = memory_of(runner, graph.ranks());
  std::vector<exec::Tensor> weights;
  for (const Stage k : up_to<Stage>(plan.shape.stages_a_copy())) {
    weights.push_back(runner.weights(k));
  }
  // Running statistics are those of the first copy's share of the data.
  trained.model = {exec::joined_weights(weights), exec::joined_statistics(copies.front())};
  models::drop_copied_table(plan.model, trained.model.weights);
  return trained;
}

Trained train_on_device(const TrainingPlan& plan, const TaskGraph& graph,
                        const std::vector<models::StageRange>& ranges, exec::Feed& feed,
                        const exec::Observer& observer) {
  const auto device = exec::cuda_library().start(graph, plan.model, ranges, run_of(plan),
                                                 plan.device->settings, feed);
  exec::StageRunner runner(graph, device->modules(), device->feed(), rate_of_batch(plan), observer,
                           device->heads(), plan.statistics, plan.clip);
  exec::StreamBackend backend(graph, device->order(), runner);
  Trained trained{.timeline = exec::run(graph, backend),
                  .model = {},
                  .workers = 1,
                  .memory = {},
                  .checkpoints = {}};
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
                     const std::vector<models::StageRange>& ranges,
                     const CheckpointRequest& checkpoints) {
  exec::DataFeed data_feed(plan.data.train, plan.model.input, plan.batches, plan.seed,
                           plan.augmentation);
  const std::unique_ptr<exec::Feed> ahead = reading_ahead(plan, data_feed);
  exec::Feed& feed = ahead ? *ahead : data_feed;
  TrainJournal journal(plan);
  const exec::Observer observer{
      .loss = [&](MicroBatch i, const exec::Loss& loss) { journal.add(i, loss); },
      .update = {},
      .norm = {}};
  std::optional<TestCurve> curve;
  if (plan.test_points) curve.emplace(plan, graph);
  Trained trained;
  try {
    trained = plan.device ? train_on_device(plan, graph, ranges, feed, observer)
                          : train_on_cpu(plan, graph, ranges, checkpoints, feed, observer, journal,
                                         curve ? &*curve : nullptr);
  } catch (const RunError&) {
    journal.rethrow_failed_write();
    throw;
  }
  std::vector<TestPoint> points;
  if (curve) points = curve->finish();
  journal.finish();
  TrainingResult result{.timeline = std::move(trained.timeline),
                        .trained = std::move(trained.model),
                        .workers = trained.workers,
                        .losses = journal.losses(),
                        .curve = std::move(points),
                        .test = {},
                        .memory = std::move(trained.memory),
                        .checkpoints = trained.checkpoints};
  result.test = exec::evaluate(plan.model, result.trained.weights, result.trained.statistics,
                               plan.data.test, {.threads = result.workers});
  // The last updates of all stages come after the last loss that the journal saw.
  require_finite(result.test.loss, fmt::format("the test loss after step {}", plan.shape.batches));
  return result;
}

}  // namespace unlatch::tools
