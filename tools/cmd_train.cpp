// unlatch train: real training of a model by a schedule on this machine.
#include "schedules/error.h"
#include "tools/checkpoint_report.h"
#include "tools/command.h"
#include "tools/finished_run.h"
#include "tools/loss_curves.h"
#include "tools/outputs.h"
#include "tools/simulation_json.h"
#include "tools/simulation_text.h"
#include "tools/terminal.h"
#include "tools/test_curve_report.h"
#include "tools/text.h"
#include "traces/atomic_file.h"
#include "traces/chrome_trace.h"
#include "traces/tasks_csv.h"

namespace unlatch::tools {
namespace {

/// Everything that is reported about a finished run.
struct Report {
  const FinishedRun& run;
  const RunTasks& tasks;
  Metrics metrics;
  PredictedMemory memory;

  const TrainingPlan& plan() const { return run.plan; }
  double ms_per_step() const { return to_ms(metrics.makespan) / tasks.batches; }
  double samples_per_second() const {
    constexpr double ms_per_second = 1000;
    const int first = run.result.checkpoints.resumed_at.value_or(0);
    const double samples = static_cast<double>(plan().samples_from(first));
    return samples / (plan().shape.batches - first) * ms_per_second / ms_per_step();
  }
  double period_ms() const { return run.steady.batch_period_ns / 1e6; }
  /// Where the clock is measured, too.
  bool compares() const { return run.predicted_ms && !plan().clock; }
  double measured_over_predicted() const { return period_ms() / *run.predicted_ms; }
};

Json measured_json(const Report& report, int most_path) {
  const TrainingPlan& plan = report.plan();
  const FinishedRun& run = report.run;
  Json json{{"schedule", plan.spec.method().name},
            {"parameters", parameters_json(plan.spec.options(plan.shape))}};
  add_shape(json, plan.shape);
  add_run(json, report.tasks.graph(), report.tasks.timeline(), report.metrics,
          report.memory.by_tensors, most_path);
  add_peaks(json, run.graph, report.memory.by_tensors);
  json["steady_state"] = {{"batch_period_ms", report.period_ms()},
                          {"speedup_over_bp", nullptr},
                          {"utilization", nullptr}};
  json["memory_detail"] = memory_json(run.result.memory, report.memory);
  return json;
}

Json to_json(const Report& report, int most_path) {
  const TrainingPlan& plan = report.plan();
  const FinishedRun& run = report.run;
  Json json{{"model", plan.model.name},
            {"data", plan.data_name},
            {"batch_size", plan.batch_size},
            {"steps", plan.shape.batches},
            {"partition", partition_json(run.ranges)},
            {"device", plan.device ? plan.device->name : "cpu"},
            {"workers", run.result.workers},
            {"seed", plan.seed},
            {"train_loss", number_json(run.result.losses.back())},
            {"test_accuracy", run.result.test.accuracy},
            {"test_loss", number_json(run.result.test.loss)},
            {"test_samples", run.result.test.samples},
            {"step_ms", report.ms_per_step()},
            {"samples_per_second", report.samples_per_second()}};
  add_checkpoints(json, run.result.checkpoints);
  if (plan.test_points) json["test_curve"] = test_curve_json(run);
  json["measured"] = measured_json(report, most_path);
  if (report.compares()) {
    json["predicted"] = {{"batch_period_ms", *run.predicted_ms},
                         {"measured_over_predicted", report.measured_over_predicted()}};
  } else if (plan.clock) {
    json["simulated"] = {{"batch_period_ms", *run.predicted_ms},
                         {"time_ms", to_ms(plan.clock->updates.back())}};
  }
  return json;
}

std::string to_text(const Report& report) {
  const TrainingPlan& plan = report.plan();
  const FinishedRun& run = report.run;
  const exec::Evaluation& test = run.result.test;
  std::vector<int> layers;
  for (const models::StageRange& range : run.ranges) layers.push_back(range.layers());
  std::string text =
      fmt::format("{} on {} with {}\n", plan.model.name, plan.data_name, bold(plan.spec.text()));
  const std::string replicas =
      plan.shape.replicas > 1 ? fmt::format("{} replicas of ", plan.shape.replicas) : "";
  const std::string where =
      plan.device ? plan.device->name : fmt::format("{} worker threads", run.result.workers);
  text += fmt::format("{} steps of {} samples, {}{} stages of {} layers, {}\n\n",
                      plan.shape.batches, plan.batch_size, replicas, plan.shape.stages_a_copy(),
                      fmt::join(layers, "/"), where);
  text += fmt::format("test accuracy   {:.2f}% ({} of {})\n", test.accuracy * 100, test.correct,
                      test.samples);
  text += fmt::format("test loss       {:.4f}\n", test.loss);
  text += fmt::format("last train loss {:.4f}\n", run.result.losses.back());
  text += fmt::format("time per step   {} ms, {:.0f} samples/s\n", format_ms(report.ms_per_step()),
                      report.samples_per_second());
  text += fmt::format("batch period    {} ms in steady state\n", format_ms(report.period_ms()));
  if (report.compares()) {
    text +=
        fmt::format("predicted       {} ms; measured / predicted = {}\n",
                    format_ms(*run.predicted_ms), format_number(report.measured_over_predicted()));
  } else if (plan.clock) {
    text += fmt::format("simulated       {} ms a batch, {} ms for the run\n",
                        format_ms(*run.predicted_ms), format_ms(plan.clock->updates.back()));
  }
  text += checkpoints_text(run.result.checkpoints);
  if (plan.test_points) text += fmt::format("\n{}", test_curve_table(run).text());
  return text + fmt::format(
                    "\n{}{}\n{}\nMost memory of a rank, predicted from its layers or its tensors, "
                    "and kept:\n{}",
                    ranks_table(report.metrics, report.memory.by_tensors).text(),
                    peak_text(run.graph, report.memory.by_tensors),
                    stages_table(report.tasks.graph(), report.metrics).text(),
                    memory_table(run.result.memory, report.memory).text());
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
  const FinishedRun& run = report.run;
  // What took longest to make comes first, should another output fail.
  if (const auto path = arguments.text("save")) {
    AtomicFile file(*path);
    models::write_safetensors(file, tensor_file(run.plan.model, run.result.trained));
    file.commit();
  }
  if (const auto path = arguments.text("trace")) {
    ChromeTraceOptions options;
    options.memory = report.memory.by_tensors;
    options.stage_names = stage_names(run.plan, run.ranges);
    write_chrome_trace(*path, report.tasks.graph(), report.tasks.timeline(), options);
  }
  if (const auto path = arguments.text("curves")) write_loss_curves(*path, run);
  if (const auto path = arguments.text("tasks")) {
    write_tasks_csv(*path, report.tasks.graph(), report.tasks.timeline());
  }
}

int run(const Arguments& arguments) {
  const int most_path = asked_path_length(arguments);
  require_outputs(arguments, {"trace", "tasks", "metrics", "save", "curves"});
  const FinishedRun run = run_training(arguments, asked_schedules(arguments, 1).front());
  const RunTasks tasks(run.graph, run.result.timeline, run.result.checkpoints.resumed_at);
  const MemorySizes sizes =
      memory_sizes_of(run.plan, run.graph.learning().local_gradients, run.ranges);
  const Timeline& timeline = run.result.timeline;
  const Report report{
      .run = run,
      .tasks = tasks,
      .metrics = tasks.metrics(sizes.input),
      .memory = {.by_layers = memory(run.graph, timeline, sizes),
                 .by_tensors = memory(run.graph, timeline, run.result.memory.sizes)}};
  write_outputs(arguments, report);
  if (arguments.has("json")) {
    print_json(to_json(report, most_path));
  } else {
    print(to_text(report));
  }
  return 0;
}

std::vector<FlagGroup> flags() {
  std::vector<FlagGroup> groups{
      {"Schedule",
       {{"schedule", "SPEC", "NAME[:key=value[,key=value...]]", Flag::Kind::repeated},
        {"stages", "K", "Stages of the model (4)"},
        {"ranks", "P", "Ranks of the pipeline: stages / chunks"},
        {"chunks", "V", "Stages a rank (the schedule's usual number)"},
        {"partition", "HOW", "auto (smallest largest cost), uniform, or n1/n2/.. layers"},
        {"replicas", "R", "Data-parallel replicas (1)"},
        {"microbatches", "M", "Micro-batches a batch (1)"},
        {"drain", "yes|no", "Apply every batch on every stage (yes), or stop early"}}},
      {"Training",
       {{"model", "NAME",
         "mlp, lenet, resnet20, vgg19, wrn-28-10, transformer, .. (README has all), or FILE.json"},
        {"data", "SPEC",
         "digits, fashion-mnist[:DIR], mnist|cifar10|cifar100|numpy:DIR, synthetic:CxHxW, "
         "text:FILE"},
        {"batch-size", "B", "Samples a batch (64)"},
        {"batch-ramp", "SPEC", "Batches that grow: start=16,step=16,every=100 up to --batch-size"},
        {"uneven", "yes|no",
         "Micro-batches may differ by a sample, and an epoch's last batch is what is left (no)"},
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
        {"augment", "LIST", "Of training images: crop=PIXELS, flip, or both (none)"},
        {"batch-norm-updates", "WHICH",
         "Running statistics move in forward, recompute or both (forward)"},
        {"seed", "N", "Seed of weights, order of the data and stragglers (0)"},
        {"evaluate-every", "N|epoch", "Batches between evaluations on the test data (none)"}}},
      {"Execution",
       {{"device", "WHERE", "cpu, cuda, or cuda:N[,N...] with a device for each rank (cpu)"},
        {"share-device", "yes|no", "Let several ranks share a GPU (no)"},
        {"transport", "peer|nccl", "Between GPUs: copies, or NCCL (peer)"},
        {"precision", "P", "Of activations on a GPU: fp32, tf32, bf16 or fp16 (fp32)"},
        {"loss-scale", "S", "With fp16: factor that keeps small gradients alive (1024)"},
        {"deterministic", "yes|no",
         "The same bits in every run; no: a GPU may take faster algorithms (yes)"},
        {"cuda-graph", "yes|no",
         "Launch what comes again as one graph, in profilers 0F4 to 1U1 (no)"},
        {"memory-limit", "SIZE", "On a GPU, the most that a rank may take (what it has)"},
        {"threads", "T", "Worker threads (as many as lanes or cores)"},
        {"profile", "FILE", "Predict from a profile and print it beside the measurement"},
        {"checkpoint", "DIR", "Save the run there as it goes; the two newest are kept"},
        {"checkpoint-every", "N",
         "Batches from one checkpoint to the next (an epoch, of a ramp its last kind)"},
        {"resume", "DIR", "Go on from the newest checkpoint there, with the same bits"}}},
      {"Output",
       {{"trace", "FILE", "Write a Chrome trace (.json or .json.gz)"},
        {"tasks", "FILE", "Write the tasks as CSV"},
        {"metrics", "FILE.jsonl", "Write one JSON object a batch"},
        {"curves", "FILE.svg", "Draw the losses, and those of --evaluate-every"},
        {"save", "FILE", "Write the weights (safetensors)"},
        {"critical-path", "all|N", "Most tasks of the critical path in JSON (1000)"}}}};
  groups.insert(groups.end() - 1, clock_flags());
  return groups;
}

}  // namespace

Command train_command() {
  return {.name = "train",
          .summary = "Train a model for real by a schedule",
          .groups = flags(),
          .run = run};
}

}  // namespace unlatch::tools
