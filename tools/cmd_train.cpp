// unlatch train: real training of a model by a schedule on this machine.
#include <algorithm>
#include <chrono>

#include "exec/cpu_backend.h"
#include "schedules/error.h"
#include "schedules/joint_updates.h"
#include "sim/time_order.h"
#include "tools/command.h"
#include "tools/simulation.h"
#include "tools/simulation_json.h"
#include "tools/simulation_text.h"
#include "tools/terminal.h"
#include "tools/text.h"
#include "tools/train_run.h"
#include "traces/atomic_file.h"
#include "traces/chrome_trace.h"
#include "traces/tasks_csv.h"

namespace unlatch::tools {
namespace {

/// What a profile says the run should take.
struct Prediction {
  double period_ms = 0;
  double ratio = 0;  ///< measured / predicted
};

/// Everything that is reported about a finished run.
struct Report {
  const TrainingPlan& plan;
  const TaskGraph& graph;
  const std::vector<models::StageRange>& ranges;
  const TrainingResult& result;
  Metrics metrics;
  PredictedMemory memory;
  sim::SteadyState steady;
  std::optional<Prediction> prediction;

  double ms_per_step() const { return to_ms(metrics.makespan) / plan.shape.batches; }
  double samples_per_second() const {
    constexpr double ms_per_second = 1000;
    return plan.batch_size * ms_per_second / ms_per_step();
  }
};

/// Files that cannot be written are found out before hours of training.
void require_writable(const Arguments& arguments) {
  const std::vector<std::string_view> outputs{"trace", "tasks", "metrics", "save"};
  arguments.require_outputs(outputs);
  for (std::string_view name : outputs) {
    if (const auto path = arguments.text(name)) AtomicFile probe(*path);
  }
}

/// The partition: by a profile's times where there is one, else by operations.
std::vector<models::StageRange> choose_partition(const Arguments& arguments,
                                                 const TrainingPlan& plan, const TaskGraph& graph,
                                                 const std::optional<Workload>& workload) {
  if (!workload) return flop_partition(arguments, plan, graph);
  return workload->costs_for(plan.spec, graph, 1).partition;
}

/// A prediction for another machine is printed, but not without a word.
void note_other_device(const ProfileFile& profile, const TrainingPlan& plan) {
  const std::string here = plan.device ? plan.device->name : "cpu";
  if (here.starts_with(profile.device)) return;
  say(fmt::format("note: the run is on {}, the profile that predicts it is of {}", here,
                  profile.device));
}

/// The run as a workload for the simulator.
std::optional<Workload> profiled_workload(const Arguments& arguments, const TrainingPlan& plan,
                                          const TaskGraph& graph) {
  if (!arguments.has("profile")) return std::nullopt;
  Workload workload;
  workload.shape = plan.shape;
  constexpr int enough_batches = 200;
  workload.shape.batches = std::min(plan.shape.batches, enough_batches);
  workload.layers = read_layers(arguments);
  note_other_device(*workload.layers->profile, plan);
  workload.layers->batch_size = plan.batch_size;
  if (plan.device) {
    workload.layers->threads = 1 << 20;  // every lane runs on the GPU, F and R in turn
    workload.layers->overlap = 0;
  } else if (plan.threads > 0) {
    // More workers than cores take turns on these.
    workload.layers->threads = std::min(plan.threads, exec::CpuBackend::default_workers(graph));
  }
  workload.disturbance.slow.assign(static_cast<std::size_t>(plan.shape.ranks()), 1.0);
  return workload;
}

/// The graph in which a server takes the updates as they would come at the profile's times.
TaskGraph ordered_by_profile(const Workload& workload, const TrainingPlan& plan,
                             const TaskGraph& in_turn, Schedule schedule) {
  const sim::StageCosts costs(workload.costs_for(plan.spec, in_turn, plan.shape.ranks()).times);
  order_in_time(schedule, costs, workload, workload.disturbance, 0);
  return schedule.build();
}

/// A norm over the whole model is one that all stages wait for.
Schedule schedule_of(const TrainingPlan& plan) {
  const Schedule schedule = plan.spec.make(plan.shape);
  return plan.clip && !plan.clip->of_stage ? with_joint_updates(schedule) : schedule;
}

/// Of a schedule that gathers the gradients of more batches than there are.
void require_updates(const TrainingPlan& plan, const TaskGraph& graph) {
  const bool updates =
      std::ranges::any_of(graph.ids(), [&](TaskId id) { return graph.task(id).op == Op::update; });
  require(updates, "{} reaches no update in {} batch{}, so nothing would be learned; train longer",
          plan.spec.text(), plan.shape.batches, plan.shape.batches == 1 ? "" : "es");
}

std::optional<Prediction> predict(const TrainingPlan& plan, const std::optional<Workload>& workload,
                                  const sim::SteadyState& measured) {
  if (!workload) return std::nullopt;
  const Simulation simulation = simulate(plan.spec, *workload);
  return Prediction{.period_ms = simulation.steady.batch_period_ns / 1e6,
                    .ratio = measured.batch_period_ns / simulation.steady.batch_period_ns};
}

Json measured_json(const Report& report, int most_path) {
  const TrainingPlan& plan = report.plan;
  Json json{{"schedule", plan.spec.method().name},
            {"parameters", parameters_json(plan.spec.options(plan.shape))}};
  add_shape(json, plan.shape);
  add_run(json, report.graph, report.result.timeline, report.metrics, report.memory.by_layers,
          most_path);
  json["steady_state"] = {{"batch_period_ms", report.steady.batch_period_ns / 1e6},
                          {"speedup_over_bp", nullptr},
                          {"utilization", nullptr}};
  json["memory_detail"] = memory_json(report.result.memory, report.memory);
  return json;
}

Json to_json(const Report& report, int most_path) {
  const TrainingPlan& plan = report.plan;
  Json json{{"model", plan.model.name},
            {"data", plan.data_name},
            {"batch_size", plan.batch_size},
            {"steps", plan.shape.batches},
            {"partition", partition_json(report.ranges)},
            {"device", plan.device ? plan.device->name : "cpu"},
            {"workers", report.result.workers},
            {"seed", plan.seed},
            {"train_loss", number_json(report.result.last_loss)},
            {"test_accuracy", report.result.test.accuracy},
            {"test_loss", number_json(report.result.test.loss)},
            {"test_samples", report.result.test.samples},
            {"step_ms", report.ms_per_step()},
            {"samples_per_second", report.samples_per_second()}};
  json["measured"] = measured_json(report, most_path);
  if (report.prediction) {
    json["predicted"] = {{"batch_period_ms", report.prediction->period_ms},
                         {"measured_over_predicted", report.prediction->ratio}};
  }
  return json;
}

std::string to_text(const Report& report) {
  const TrainingPlan& plan = report.plan;
  const exec::Evaluation& test = report.result.test;
  std::vector<int> layers;
  for (const models::StageRange& range : report.ranges) layers.push_back(range.layers());
  std::string text =
      fmt::format("{} on {} with {}\n", plan.model.name, plan.data_name, bold(plan.spec.text()));
  const std::string replicas =
      plan.shape.replicas > 1 ? fmt::format("{} replicas of ", plan.shape.replicas) : "";
  const std::string where =
      plan.device ? plan.device->name : fmt::format("{} worker threads", report.result.workers);
  text += fmt::format("{} steps of {} samples, {}{} stages of {} layers, {}\n\n",
                      plan.shape.batches, plan.batch_size, replicas, plan.shape.stages_a_copy(),
                      fmt::join(layers, "/"), where);
  text += fmt::format("test accuracy   {:.2f}% ({} of {})\n", test.accuracy * 100, test.correct,
                      test.samples);
  text += fmt::format("test loss       {:.4f}\n", test.loss);
  text += fmt::format("last train loss {:.4f}\n", report.result.last_loss);
  text += fmt::format("time per step   {} ms, {:.0f} samples/s\n", format_ms(report.ms_per_step()),
                      report.samples_per_second());
  text += fmt::format("batch period    {} ms in steady state\n",
                      format_ms(report.steady.batch_period_ns / 1e6));
  if (report.prediction) {
    text += fmt::format("predicted       {} ms; measured / predicted = {}\n",
                        format_ms(report.prediction->period_ms),
                        format_number(report.prediction->ratio));
  }
  return text + fmt::format(
                    "\n{}\n{}\nMost memory of a rank, predicted from its layers or its tensors, "
                    "and kept:\n{}",
                    ranks_table(report.metrics, report.memory.by_layers).text(),
                    stages_table(report.graph, report.metrics).text(),
                    memory_table(report.result.memory, report.memory).text());
}

std::vector<std::string> stage_names(const TrainingPlan& plan,
                                     const std::vector<models::StageRange>& ranges) {
  std::vector<std::string> names;
  for (const models::StageRange& range : ranges) {
    std::vector<std::string> layers;
    for (int j = range.first; j <= range.last; ++j) {
      layers.push_back(plan.model.layers[static_cast<std::size_t>(j)].name);
    }
    names.push_back(fmt::format("{}", fmt::join(layers, " ")));
  }
  const std::vector<std::string> one_copy = names;
  for (int copy = 1; copy < plan.shape.copies; ++copy) {
    names.insert(names.end(), one_copy.begin(), one_copy.end());
  }
  return names;
}

void write_outputs(const Arguments& arguments, const Report& report) {
  if (const auto path = arguments.text("trace")) {
    ChromeTraceOptions options;
    options.memory = report.memory.by_layers;
    options.stage_names = stage_names(report.plan, report.ranges);
    write_chrome_trace(*path, report.graph, report.result.timeline, options);
  }
  if (const auto path = arguments.text("tasks")) {
    write_tasks_csv(*path, report.graph, report.result.timeline);
  }
  if (const auto path = arguments.text("save")) {
    AtomicFile file(*path);
    models::write_safetensors(file, tensor_file(report.plan.model, report.result.trained));
    file.commit();
  }
}

int run(const Arguments& arguments) {
  const int most_path = asked_path_length(arguments);
  const TrainingPlan plan = read_plan(arguments);
  require_writable(arguments);
  const Schedule schedule = schedule_of(plan);
  TaskGraph graph = schedule.build();
  require_optimizer_fits(plan.optimizer, graph.learning());
  require_updates(plan, graph);
  warn_of_too_many_threads(plan.threads, graph);
  const auto workload = profiled_workload(arguments, plan, graph);
  if (workload && sim::awaits_order(schedule)) {
    graph = ordered_by_profile(*workload, plan, graph, schedule);
  }
  const auto ranges = choose_partition(arguments, plan, graph, workload);
  const TrainingResult result = train(plan, graph, ranges);
  const MemorySizes sizes = memory_sizes_of(plan, graph.learning().local_gradients, ranges);
  Report report{.plan = plan,
                .graph = graph,
                .ranges = ranges,
                .result = result,
                .metrics = metrics(graph, result.timeline, sizes.input),
                .memory = {.by_layers = memory(graph, result.timeline, sizes),
                           .by_tensors = memory(graph, result.timeline, result.memory.sizes)},
                .steady = sim::mean_period(graph, result.timeline),
                .prediction = {}};
  report.prediction = predict(plan, workload, report.steady);
  write_outputs(arguments, report);
  if (arguments.has("json")) {
    print_json(to_json(report, most_path));
  } else {
    print(to_text(report));
  }
  return 0;
}

std::vector<FlagGroup> flags() {
  constexpr auto later = Flag::Kind::later;
  return {{"Schedule",
           {{"schedule", "SPEC", "NAME[:key=value[,key=value...]]", Flag::Kind::repeated},
            {"stages", "K", "Stages of the model (4)"},
            {"ranks", "P", "Ranks of the pipeline: stages / chunks"},
            {"chunks", "V", "Stages a rank (the schedule's usual number)"},
            {"partition", "HOW", "auto (smallest largest cost), uniform, or n1/n2/.. layers"},
            {"replicas", "R", "Data-parallel replicas (1)"},
            {"microbatches", "M", "Micro-batches a batch (1)"},
            {"drain", "yes|no", "Apply every batch on every stage (yes), or stop early"}}},
          {"Training",
           {{"model", "NAME", "mlp, lenet, resnet18/34/50/101/152 or resnet20/32/.. (6n+2)"},
            {"data", "SPEC",
             "digits, fashion-mnist[:DIR], mnist|cifar10|cifar100:DIR, synthetic:CxHxW"},
            {"batch-size", "B", "Samples a batch (64)"},
            {"epochs", "E", "Passes over the data (1)"},
            {"steps", "S", "Batches, instead of --epochs"},
            {"optimizer", "SPEC", optimizer_help},
            {"weight-decay", "L",
             "Added to the gradient times L; of adamw and lamb apart from it (the optimizer's)"},
            {"lr", "RATE", "Learning rate (0.1)"},
            {"lr-schedule", "SPEC",
             "constant, linear, cosine, step:at=60/80,factor=0.1 or polynomial:power=2,end=0, each "
             "with warmup=BATCHES or warmup_epochs=E and start=0"},
            {"lr-scaling", "linear|sqrt", "Scale --lr by the batch size over --lr-base-batch"},
            {"lr-base-batch", "N", "Samples a batch that --lr is meant for"},
            {"clip-norm", "X[,scope=stage]",
             "Largest norm of a batch's gradient, over the model, or of each stage alone"},
            {"seed", "N", "Seed of weights and order of the data (0)"}}},
          {"Execution",
           {{"device", "WHERE", "cpu, cuda, or cuda:N[,N...] with a device for each rank (cpu)"},
            {"share-device", "yes|no", "Let several ranks share a GPU (no)"},
            {"transport", "peer|nccl", "Between GPUs: copies, or NCCL (peer)"},
            {"precision", "P", "Of activations on a GPU: fp32, tf32, bf16 or fp16 (fp32)"},
            {"loss-scale", "S", "With fp16: factor that keeps small gradients alive (1024)"},
            {"cuda-graph", "yes|no",
             "Launch what comes again as one graph, in profilers 0F4 to 1U1 (no)"},
            {"memory-limit", "SIZE", "On a GPU, the most that a rank may take (what it has)"},
            {"threads", "T", "Worker threads (as many as lanes or cores)"},
            {"profile", "FILE", "Predict from a profile and print it beside the measurement"},
            {"uneven", "yes|no", "Micro-batches of different sizes", later},
            {"clock", "measured|simulated", "Which clock keeps the time", later},
            {"cluster", "FILE", "Hardware and network", later},
            {"checkpoint", "DIR", "Where to save states", later},
            {"resume", "DIR", "Where to go on from", later}}},
          {"Output",
           {{"trace", "FILE", "Write a Chrome trace (.json or .json.gz)"},
            {"tasks", "FILE", "Write the tasks as CSV"},
            {"metrics", "FILE.jsonl", "Write one JSON object a batch"},
            {"save", "FILE", "Write the weights (safetensors)"},
            {"critical-path", "all|N", "Most tasks of the critical path in JSON (1000)"}}}};
}

}  // namespace

Command train_command() {
  return {.name = "train",
          .summary = "Train a model for real by a schedule",
          .groups = flags(),
          .run = run};
}

}  // namespace unlatch::tools
