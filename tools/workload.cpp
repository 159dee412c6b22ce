#include "tools/workload.h"

#include <algorithm>
#include <thread>

#include "schedules/error.h"
#include "schedules/joint_updates.h"
#include "sim/units.h"
#include "tools/placed_errors.h"
#include "tools/schedule_input.h"
#include "tools/shape_options.h"
#include "tools/stage_profile.h"
#include "tools/terminal.h"
#include "tools/training.h"

namespace unlatch::tools {
namespace {

sim::CostSettings cost_settings(const Arguments& arguments) {
  return {.forward = arguments.text("forward"),
          .backward = arguments.text("backward"),
          .input_grad = arguments.text("input-grad"),
          .weight_grad = arguments.text("weight-grad"),
          .recompute = arguments.text("recompute"),
          .update = arguments.text("update"),
          .transfer = arguments.text("transfer"),
          .activation_transfer = arguments.text("activation-transfer"),
          .gradient_transfer = arguments.text("gradient-transfer"),
          .all_reduce = arguments.text("all-reduce"),
          .push = arguments.text("push"),
          .pull = arguments.text("pull"),
          .overlap = arguments.text("overlap"),
          .place = [&arguments](std::string_view flag) { return arguments.place(flag); }};
}

/// Times are 64-bit nanoseconds: the longest possible run must fit them.
void require_representable(const sim::StageTimes& costs, const Shape& shape,
                           const sim::Disturbance& disturbance) {
  double slowest = 0;
  for (const auto* times : {&costs.forward, &costs.backward, &costs.recompute, &costs.update,
                            &costs.activation_transfer, &costs.gradient_transfer}) {
    for (const nanoseconds t : *times) slowest = std::max(slowest, static_cast<double>(t.count()));
  }
  double factor = 1;
  for (const double slow : disturbance.slow) factor = std::max(factor, slow);
  for (const sim::SlowLink& link : disturbance.slow_links) factor = std::max(factor, link.factor);
  slowest *= factor;
  const double tasks = 8.0 * shape.stages * shape.all_micro_batches();
  constexpr double most_ns = 9e18;
  require(slowest * tasks < most_ns,
          "a run of {} micro-batches with tasks of up to {} may last longer than 292 years, the "
          "most that times in nanoseconds hold; lower the costs or --batches",
          shape.all_micro_batches(),
          sim::format_duration(nanoseconds{static_cast<std::int64_t>(std::min(slowest, most_ns))}));
}

void check_batch_size(const Arguments& arguments, const Shape& shape) {
  if (!arguments.has("batch-size")) return;
  const int batch = arguments.whole("batch-size", 1);
  require(!arguments.yes("uneven", false),
          "{} yes is not available in this version of unlatch; choose a --batch-size that "
          "--microbatches divides",
          arguments.place("uneven"));
  const int parts = shape.micro_batches * shape.replicas;
  require(batch % parts == 0,
          "{} {} is not divisible by {} {}{}: every micro-batch holds as many "
          "samples; choose a multiple of {}",
          arguments.place("batch-size"), batch, arguments.place("microbatches"),
          shape.micro_batches,
          shape.replicas > 1 ? fmt::format(" x {} {}", arguments.place("replicas"), shape.replicas)
                             : "",
          parts);
}

}  // namespace

void require_layers_from_one(const Arguments& arguments) {
  require(!arguments.has("profile") || !arguments.has("cluster"),
          "{} and {} both say what layers cost; leave one of them out", arguments.place("profile"),
          arguments.place("cluster"));
}

void require_one_source(const Arguments& arguments, bool of_stages) {
  const bool profile = arguments.has("profile") && !of_stages, cluster = arguments.has("cluster");
  for (std::string_view name : {"batch-size", "partition", "uneven"}) {
    require(profile || cluster || !arguments.has(name),
            "{} is for costs of layers and needs --profile FILE or --cluster FILE; here the costs "
            "are {}",
            arguments.place(name), of_stages ? "those of measured stages" : "abstract");
  }
  require(profile || !arguments.has("threads"), "{} is for --profile FILE of layers",
          arguments.place("threads"));
  for (std::string_view name :
       {"model", "data", "precision", "optimizer", "placement", "contention"}) {
    require(cluster || !arguments.has(name), "{} is for --cluster FILE", arguments.place(name));
  }
  for (std::string_view name : {"forward", "backward", "input-grad", "weight-grad"}) {
    require(!of_stages || !arguments.has(name), "{} contradicts --profile, whose stages bring it",
            arguments.place(name));
  }
  if (!profile && !cluster) return;
  const std::string_view source = profile ? "--profile" : "--cluster";
  require(arguments.has("batch-size"), "{} needs --batch-size B, the samples of a batch", source);
  for (const FlagGroup& group : {cost_flags(), simulated_memory_flags()}) {
    for (const Flag& flag : group.flags) {
      const bool fits = flag.name == "overlap" || flag.name == "sends" ||
                        flag.name == "send-engines" || flag.name == "memory-limit" ||
                        (flag.name == "all-reduce" && cluster);
      require(fits || !arguments.has(flag.name),
              "{} contradicts {}, which brings costs and sizes of its own",
              arguments.place(flag.name), source);
    }
  }
}

namespace {

/// R is F unless --recompute says otherwise.
void take_measured_stages(const Arguments& arguments, const StageProfileFile& measured,
                          Workload& workload) {
  const auto stages = static_cast<int>(measured.stages.size());
  require(workload.shape.stages_a_copy() == stages,
          "{} '{}' holds the costs of {} stages, but the schedule has {}",
          arguments.place("profile"), *arguments.text("profile"), stages,
          workload.shape.stages_a_copy());
  set_measured_work(measured, workload.times);
  if (!arguments.has("recompute")) workload.times.recompute = workload.times.forward;
  workload.halves_backward = measured.halves_backward();
}

}  // namespace

MemorySizes read_memory_sizes(const Arguments& arguments, int stages) {
  return {.activation = arguments.sizes("activation-size", stages),
          .input = arguments.sizes("input-size", stages),
          .weight_grad_activation = arguments.sizes("weight-grad-activation-size", stages),
          .weight = arguments.sizes("weight-size", stages),
          .gradient = arguments.sizes("gradient-size", stages),
          .optimizer = arguments.sizes("optimizer-size", stages),
          .output = {},
          .output_gradient = {}};
}

bool all_synchronous(const std::vector<ScheduleSpec>& specs) {
  return std::ranges::all_of(specs,
                             [](const ScheduleSpec& spec) { return spec.method().synchronous; });
}

Workload read_workload(const Arguments& arguments, const ScheduleSpec& spec, bool synchronous) {
  Workload workload;
  require_layers_from_one(arguments);
  std::optional<StageProfileFile> measured;
  if (arguments.has("profile")) {
    measured = reading(arguments, "profile",
                       [&] { return read_stage_profile(*arguments.text("profile")); });
  }
  workload.shape = read_shape(arguments, spec, synchronous,
                              measured ? static_cast<int>(measured->stages.size()) : usual_stages);
  const int stages = workload.shape.stages;
  workload.sends = asked_sends(arguments);
  require_no_send_deadlock(spec, workload.shape, workload.sends);
  workload.own_messages = own_messages(spec);
  workload.one_send_engine = asked_one_send_engine(arguments);
  check_batch_size(arguments, workload.shape);
  require_one_source(arguments, measured.has_value());
  if (!measured && (arguments.has("profile") || arguments.has("cluster"))) {
    workload.layers = read_layers(arguments);
    const auto& profile = workload.layers->profile;
    require(!arguments.has("threads") || profile->of_cpu(),
            "{} counts threads of the CPU, and the profile is of a {}; leave it out",
            arguments.place("threads"), profile ? profile->device : "cluster");
  } else {
    workload.times = sim::stage_times(cost_settings(arguments), stages);
    if (measured) take_measured_stages(arguments, *measured, workload);
    workload.sizes = read_memory_sizes(arguments, stages);
    workload.sizes.output = arguments.sizes("output-size", stages);
    workload.sizes.output_gradient = workload.sizes.output;
  }
  workload.memory_limit = arguments.size("memory-limit");
  const auto* cluster =
      workload.layers && workload.layers->cluster ? &*workload.layers->cluster : nullptr;
  if (cluster != nullptr && arguments.has("placement")) {
    const std::size_t places = cluster->cluster.placement().size();
    const int ranks = spec.effective(workload.shape).ranks();
    require(static_cast<std::size_t>(ranks) <= places,
            "{} '{}': {} ranks, but it names {} device{}", arguments.place("placement"),
            *arguments.text("placement"), ranks, places, places == 1 ? "" : "s");
  }
  workload.disturbance =
      read_disturbance(arguments, spec.effective(workload.shape).ranks(),
                       {.cluster = cluster != nullptr,
                        .links_are_shared = cluster != nullptr && cluster->links_are_shared});
  require(
      !workload.one_send_engine || workload.disturbance.slow_links.empty(),
      "{} and {} one: a queue for all sends of a rank is no link between two; leave one of them "
      "out",
      arguments.place("slow-link"), arguments.place("send-engines"));
  constexpr int most_runs = 1'000'000;
  workload.runs = arguments.whole("runs", 1, 1, most_runs);
  if (!workload.layers) require_representable(workload.times, workload.shape, workload.disturbance);
  return workload;
}

void require_random_runs(const Workload& workload) {
  require(workload.runs == 1 || workload.disturbance.random(),
          "--runs {} without --straggler: runs differ only where costs are random", workload.runs);
}

void note_assumptions(const Workload& workload, const ScheduleSpec& spec) {
  if (workload.halves_backward) {
    say("note: I and W of some stages were not measured; where a schedule splits B they are taken "
        "to "
        "be half of it each");
  }
  if (!workload.layers || !workload.layers->profile) return;
  const ProfileFile& profile = *workload.layers->profile;
  int measured = 0;
  for (const exec::LayerProfile& one_of : profile.profiles) {
    measured = std::max(measured, one_of.workers);
  }
  const int ranks = spec.effective(workload.shape).ranks();
  if (!profile.of_cpu()) {
    if (ranks <= measured) return;
    say(
        fmt::format("note: {} ranks, but the profile is of one {}; the times assume one for every "
                    "rank",
                    ranks, profile.device));
    return;
  }
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = workload.layers->threads > 0 ? workload.layers->threads : cores;
  if (ranks > threads) {
    say(
        fmt::format("note: {} ranks take turns on {} worker threads, a core each; --threads names "
                    "another number",
                    ranks, threads));
  }
  const int workers = std::min(ranks, threads);
  if (workers > 1 && profile.handovers.empty()) {
    say("note: the profile has no 'handovers', the costs of cuts between layers; the times assume "
        "that tensors change workers for nothing ('unlatch profile' measures it)");
  }
  if (workers <= measured) return;
  say(
      fmt::format("note: {} workers, but the profile was measured with at most {} workers at once; "
                  "the times assume that more cost the same",
                  workers, measured));
}

std::vector<ScheduleSpec> asked_schedules(const Arguments& arguments, int most) {
  std::vector<ScheduleSpec> specs;
  for (const std::string& text : arguments.all("schedule")) {
    specs.push_back(reading(arguments, "schedule", [&] { return read_schedule(text); }));
  }
  require(!specs.empty(), "--schedule SPEC is needed; 'unlatch schedules' lists the names");
  require(most == 0 || static_cast<int>(specs.size()) <= most,
          "--schedule is given {} times, but this command takes {}; 'unlatch compare' takes many",
          specs.size(), most);
  return specs;
}

Schedule Workload::schedule(const ScheduleSpec& spec, const Shape& its_shape) const {
  Schedule made = spec.make(its_shape);
  return joint_updates ? with_joint_updates(made) : std::move(made);
}

TaskCosts Workload::costs_for(const ScheduleSpec& spec, const TaskGraph& graph, double busy,
                              const TaskGraph& placed) const {
  const int copies = graph.shape().copies;
  if (!layers) return abstract_costs(spec, copies);
  TaskCosts costs = layers->costs(graph, busy, placed);
  require_representable(costs.times, shape, disturbance);
  costs.sizes = costs.sizes.for_copies(copies);
  return costs;
}

TaskCosts Workload::abstract_costs(const ScheduleSpec& spec, int copies) const {
  const int pieces = spec.pipeline().uses_micro_batches ? 1 : shape.micro_batches;
  return {.times = times.in_one_piece(pieces).for_copies(copies),
          .sizes = sizes.in_one_piece(pieces).for_copies(copies),
          .partition = {}};
}

}  // namespace unlatch::tools
