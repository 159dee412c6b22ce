#include "tools/finished_run.h"

#include <algorithm>
#include <filesystem>

#include "exec/cpu_backend.h"
#include "models/model_file.h"
#include "models/tied_head.h"
#include "schedules/error.h"
#include "schedules/joint_updates.h"
#include "sim/time_order.h"
#include "tools/placed_errors.h"
#include "tools/run_checks.h"
#include "tools/terminal.h"
#include "tools/training.h"

namespace unlatch::tools {
namespace {

/// A prediction for another machine is printed, but not without a word.
void note_other_device(const ProfileFile& profile, const TrainingPlan& plan) {
  const std::string here = plan.device ? plan.device->name : "cpu";
  if (here.starts_with(profile.device)) return;
  say(fmt::format("note: the run is on {}, the profile that predicts it is of {}", here,
                  profile.device));
}

/// What updates and their memory cost is that of the optimizer that was measured.
void note_other_optimizer(const ProfileFile& profile, const TrainingPlan& plan) {
  const exec::LayerProfile& measured = profile.profiles.front();
  const bool same = measured.optimizer == plan.optimizer.name &&
                    measured.optimizer_slots == plan.optimizer.slots();
  if (same) return;
  say(
      fmt::format("warning: the profile is of updates by {0}, not by {1}; their predicted cost is "
                  "that of {0} ('unlatch profile --optimizer {1}' measures them)",
                  measured.optimizer, plan.optimizer.name));
}

/// A file may lie elsewhere than where it was profiled.
bool same_file(const std::string& one, const std::string& other) {
  const auto name = [](const std::string& model) {
    return std::filesystem::path(model.substr(0, model.find(':'))).filename();
  };
  return name(one).extension() == ".json" && name(one) == name(other);
}

/// Names that differ may stand for the same layers, as mlp and mlp:hidden=64/64 do.
void require_same_network(const std::string& profiled, const std::string& asked,
                          const TrainingPlan& plan, const std::string& of) {
  if (profiled == asked || same_file(profiled, asked)) return;
  models::Model model = plan.model;
  try {
    const models::Dataset& data = plan.data.train;
    model = models::make_model(profiled, data.shape, data.classes);
  } catch (const Error& error) {
    fail("{}: {}", of, error.what());
  }
  model.name = plan.model.name;
  require(models::model_json(model) == models::model_json(plan.model), "{}: their layers differ",
          of);
}

/// Blocked layouts of the CPU round the channels of images up to 16; of a GPU, numbers may have 2
/// bytes.
void require_output_fits(const ProfileFile& profile, std::size_t layer,
                         const models::SampleShape& shape, const std::string& of) {
  constexpr std::int64_t block = 16, float_bytes = sizeof(float);
  models::SampleShape padded = shape;
  padded.channels = static_cast<int>((shape.channels + block - 1) / block * block);
  const auto element = static_cast<std::int64_t>(exec::bytes_of(profile.precision));
  for (const exec::LayerProfile& measured : profile.profiles) {
    const exec::LayerCost& cost = measured.layers[layer];
    const auto bytes = static_cast<std::int64_t>(cost.output_bytes);
    require(bytes >= shape.elements() * element * measured.micro_batch_size &&
                bytes <= padded.elements() * float_bytes * measured.micro_batch_size,
            "{}: the output of its layer {} has {} bytes for {} samples, that of the model's layer "
            "{} numbers a sample",
            of, cost.name, bytes, measured.micro_batch_size, shape.elements());
  }
}

/// What was measured must be the network that is trained.
void require_profile_fits(const ProfileFile& profile, const std::string& asked_model,
                          const TrainingPlan& plan) {
  const std::string of = fmt::format("the profile is of {} on {}, not of {} on {}", profile.model,
                                     profile.data, plan.model.name, plan.data_name);
  const std::int64_t sample = plan.model.input.elements() * std::int64_t{sizeof(float)};
  require(profile.sample_bytes == sample, "{}: its samples have {} bytes, those of the run {}", of,
          profile.sample_bytes, sample);
  const std::vector<exec::LayerCost>& measured = profile.profiles.front().layers;
  require(measured.size() == plan.model.layers.size(), "{}: it has {} layers, the model {}", of,
          measured.size(), plan.model.layers.size());
  const auto shapes = plan.model.shapes();
  for (std::size_t j = 0; j < measured.size(); ++j) {
    const models::Layer& layer = plan.model.layers[j];
    const auto parameters = static_cast<std::size_t>(
        models::parameter_count(models::untied(layer), shapes[j]) * std::int64_t{sizeof(float)});
    require(measured[j].name == layer.name && measured[j].parameter_bytes == parameters,
            "{}: its layer {} has {} bytes of parameters, the model's layer {} has {}", of,
            measured[j].name, measured[j].parameter_bytes, layer.name, parameters);
    require(measured[j].tied == models::is_tied(layer),
            "{}: its layer {} {} to the embedding, the model's {}", of, layer.name,
            measured[j].tied ? "is tied" : "is not tied", measured[j].tied ? "is not" : "is");
    require_output_fits(profile, j, shapes[j + 1], of);
  }
  require_same_network(profile.model, asked_model, plan, of);
}

bool clock_is_simulated(const Arguments& arguments) {
  const bool simulated = arguments.choice("clock", {"measured", "simulated"}) == "simulated";
  require_layers_from_one(arguments);
  require(!simulated || arguments.has("cluster") || arguments.has("profile"),
          "--clock simulated needs costs: give --cluster NAME or --profile FILE");
  for (const Flag& flag : clock_flags().flags) {
    const bool asked = flag.name != "clock" && arguments.has(flag.name);
    require(simulated || !asked, "{} is for --clock simulated", arguments.place(flag.name));
  }
  return simulated;
}

/// The run as a workload for the simulator: of its beginning, to predict the measured one, or whole
/// and disturbed as asked, to keep its time.
Workload workload_of(const Arguments& arguments, const TrainingPlan& plan, const TaskGraph& graph,
                     bool keeps_time) {
  Workload workload;
  workload.shape = plan.shape;
  workload.joint_updates = plan.clips_whole_model();
  workload.layers = read_layers(arguments);
  LayerWorkload& layers = *workload.layers;
  layers.batch_size = plan.batch_size;
  if (layers.profile) {
    reading(arguments, "profile",
            [&] { require_profile_fits(*layers.profile, *arguments.text("model"), plan); });
    note_other_optimizer(*layers.profile, plan);
  }
  const int ranks = plan.shape.ranks();
  if (keeps_time) {
    const bool links_are_shared = layers.cluster && layers.cluster->links_are_shared;
    workload.disturbance = read_disturbance(
        arguments, ranks,
        {.cluster = layers.cluster.has_value(), .links_are_shared = links_are_shared});
    return workload;
  }
  note_other_device(*layers.profile, plan);
  constexpr int enough_batches = 200;
  workload.shape.batches = std::min(plan.shape.batches, enough_batches);
  if (plan.device) {
    layers.threads = 1 << 20;  // every lane runs on the GPU, F and R in turn
    layers.overlap = 0;
  } else if (plan.threads > 0) {
    // More workers than cores take turns on these.
    layers.threads = std::min(plan.threads, exec::CpuBackend::default_workers(graph));
  }
  workload.disturbance.slow.assign(static_cast<std::size_t>(ranks), 1.0);
  return workload;
}

/// The graph in which a server takes the updates as they would come at the predicted times.
TaskGraph ordered_in_time(const Workload& workload, const TrainingPlan& plan,
                          const TaskGraph& in_turn, Schedule schedule) {
  const sim::StageCosts costs(workload.costs_for(plan.spec, in_turn, plan.shape.ranks()).times);
  order_in_time(schedule, costs, workload, workload.disturbance, 0);
  return schedule.build();
}

/// Whether first and last stage hold copies of one table, whose gradients they sum.
bool has_tied_stages(const TrainingPlan& plan) {
  return models::has_tied_head(plan.model) && plan.shape.stages_a_copy() > 1;
}

Schedule with_summed_copies(const Schedule& schedule, const TrainingPlan& plan) {
  constexpr std::string_view advice =
      "train a head with weights of its own (--model transformer:tied=no, or no \"tied\" in a "
      "model file), or on one stage";
  require(plan.spec.method().synchronous,
          "model {}: its head is tied to the embedding on another stage, and {} updates a stage "
          "before the gradients of the others are there; {}",
          plan.model.name, plan.spec.text(), advice);
  try {
    return with_joint_updates(schedule);
  } catch (const Error& error) {
    fail("model {}: its head is tied to the embedding on another stage: {}; {}", plan.model.name,
         error.what(), advice);
  }
}

/// A norm over the whole model and the sum of a tied table's gradients are what all stages wait
/// for.
Schedule schedule_of(const TrainingPlan& plan) {
  const Schedule schedule = plan.spec.make(plan.shape);
  if (has_tied_stages(plan)) return with_summed_copies(schedule, plan);
  return plan.clips_whole_model() ? with_joint_updates(schedule) : schedule;
}

/// The period of a batch in ms; the clock of the plan where the simulation keeps time.
double predict(TrainingPlan& plan, const Workload& workload, bool keeps_time) {
  const Simulation simulation = simulate(plan.spec, workload);
  require(!keeps_time || !simulation.excess, "{}: {}", plan.spec.text(),
          simulation.excess ? simulation.excess->text() : "");
  if (keeps_time) plan.clock = clock_of(simulation.graph, simulation.timeline);
  return simulation.steady.batch_period_ns / 1e6;
}

}  // namespace

FlagGroup clock_flags() {
  FlagGroup stragglers = straggler_flags();
  stragglers.title = "With --clock simulated";
  std::erase_if(stragglers.flags,
                [](const Flag& flag) { return flag.name == "runs" || flag.name == "seed"; });
  std::vector<Flag> flags{
      {"clock", "measured|simulated", "Which clock keeps the time of losses (measured)"},
      {"cluster", "FILE|NAME", "Hardware that keeps the time (or --profile FILE)"},
      {"placement", "D[,D...]", "Devices of the ranks, from 0 (the file's)"},
      {"contention", "HOW", "none, or fair: transfers share links (none)"},
      {"all-reduce", "HOW", "ring or tree (ring)"},
      {"overlap", "W", "How much of R hides beside F, from 0 to 1"}};
  stragglers.flags.insert(stragglers.flags.begin(), flags.begin(), flags.end());
  return stragglers;
}

void warm_up(const Arguments& arguments, const ScheduleSpec& spec) {
  TrainingPlan plan = read_plan(arguments, spec);
  require_pieces_fit(arguments, plan);
  constexpr int few_batches = 3;
  plan.shape.batches = std::min(plan.shape.batches, few_batches);
  plan.test_points.reset();
  plan.metrics_file.reset();
  const TaskGraph graph = schedule_of(plan).build();
  train(plan, graph, work_partition(arguments, plan, graph), {});
}

FinishedRun run_training(const Arguments& arguments, const ScheduleSpec& spec) {
  const bool keeps_time = clock_is_simulated(arguments);
  TrainingPlan plan = read_plan(arguments, spec);
  require_pieces_fit(arguments, plan);
  require(!keeps_time || !has_tied_stages(plan),
          "--clock simulated with a tied head: the time that stages wait for the sum of its "
          "gradients is not simulated; train it on one stage, or a head with weights of its own");
  CheckpointRequest checkpoints = asked_checkpoints(arguments, plan);
  const Schedule schedule = schedule_of(plan);
  TaskGraph graph = schedule.build();
  require_optimizer_fits(plan.optimizer, graph.learning());
  require_updates(plan, graph);
  require_heads_fit(plan, graph);
  require_statistics_at_hand(arguments, plan, graph);
  warn_of_too_many_threads(plan.threads, graph);
  std::optional<double> predicted_ms;
  std::vector<models::StageRange> ranges;
  if (keeps_time || arguments.has("profile")) {
    const Workload workload = workload_of(arguments, plan, graph, keeps_time);
    if (sim::awaits_order(schedule)) graph = ordered_in_time(workload, plan, graph, schedule);
    ranges = workload.costs_for(plan.spec, graph, 1).partition;
    predicted_ms = predict(plan, workload, keeps_time);
  } else {
    ranges = work_partition(arguments, plan, graph);
  }
  if (!checkpoints.is_empty()) checkpoints.identity.emplace(arguments, plan, graph, ranges);
  TrainingResult result = train(plan, graph, ranges, checkpoints);
  const sim::SteadyState steady =
      sim::mean_period(graph, result.timeline, result.checkpoints.resumed_at.value_or(0));
  return {.plan = std::move(plan),
          .graph = std::move(graph),
          .ranges = std::move(ranges),
          .result = std::move(result),
          .steady = steady,
          .predicted_ms = predicted_ms};
}

}  // namespace unlatch::tools
