// unlatch profile: what each layer of a model costs on this machine.
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "exec/handover.h"
#include "models/dataset.h"
#include "schedules/error.h"
#include "sim/units.h"
#include "tools/command.h"
#include "tools/model_options.h"
#include "tools/profile_file.h"
#include "tools/table.h"
#include "tools/terminal.h"
#include "tools/text.h"
#include "tools/training.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {
namespace {

std::vector<int> asked_list(const Arguments& arguments, std::string_view name,
                            std::vector<int> otherwise, int most) {
  const auto text = arguments.text(name);
  if (!text) return otherwise;
  std::vector<int> values;
  for (std::string_view entry : sim::split_list(*text)) {
    const auto value = sim::parse_whole(arguments.place(name), entry, 1, most);
    values.push_back(static_cast<int>(value));
  }
  return values;
}

/// One worker, and as many as there are cores: what a schedule costs lies between.
std::vector<int> usual_workers() {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return cores == 1 ? std::vector<int>{1} : std::vector<int>{1, cores};
}

std::string ms(const exec::Measurement& time) {
  return format_number(static_cast<double>(time.mean_ns) / 1e6);
}

std::string size(std::size_t bytes) { return sim::format_size(static_cast<std::int64_t>(bytes)); }

std::string to_text(const exec::LayerProfile& profile) {
  Table table({"<layer", "F ms", "F without tape ms", "B ms", "I ms", "W ms", "U ms", "output",
               "tape", "kept for W", "parameters"});
  for (const exec::LayerCost& layer : profile.layers) {
    table.add({layer.name, ms(layer.forward), ms(layer.forward_only), ms(layer.backward),
               ms(layer.input_gradient), ms(layer.weight_gradient), ms(layer.update),
               size(layer.output_bytes), size(layer.tape_bytes),
               size(layer.weight_grad_activation_bytes), size(layer.parameter_bytes)});
  }
  return fmt::format(
      "batch size {}, {} worker{}: means of {} steps, {} more left out\n{}"
      "input {} ms, target {} ms, loss {} ms, overhead of a call {} ms, whole step {} ms\n\n",
      profile.micro_batch_size, profile.workers, profile.workers == 1 ? "" : "s", profile.samples,
      profile.left_out, table.text(), ms(profile.input), ms(profile.target), ms(profile.loss),
      ms(profile.overhead), ms(profile.step));
}

exec::ProfileOptions asked_options(const Arguments& arguments) {
  exec::ProfileOptions options;
  constexpr int most = 100'000;
  if (arguments.has("samples")) {
    options.samples = arguments.whole("samples", 20, 1, most);
  } else {
    options.least_time = std::chrono::seconds(1);
  }
  options.warm_up = arguments.whole("warm-up", 2, 0, most);
  options.optimizer = asked_optimizer(arguments);
  options.seed = arguments.seed();
  return options;
}

/// Round by round, so that every measurement sees the machine's good and bad seconds alike.
void measure(std::vector<std::unique_ptr<exec::LayerProfiler>>& profilers) {
  for (bool more = true; more;) {
    more = false;
    for (auto& profiler : profilers) {
      if (!profiler->wants_more()) continue;
      profiler->measure();
      more = true;
    }
  }
}

int run(const Arguments& arguments) {
  const models::DataSplit data = models::load_data(arguments.text("data", "digits"));
  const models::Model model = asked_model_for(arguments, data.train);
  constexpr int most_workers = 1024;
  const auto sizes = asked_list(arguments, "batch-size", {64}, data.train.samples());
  const auto workers = asked_list(arguments, "workers", usual_workers(), most_workers);
  exec::ProfileOptions options = asked_options(arguments);
  arguments.require_outputs({"save"});
  const auto path = arguments.text("save");
  std::optional<AtomicFile> out;
  if (path) out.emplace(*path);  // a bad path fails before the measuring
  ProfileFile file{.model = *arguments.text("model"),
                   .data = arguments.text("data", "digits"),
                   .sample_bytes = model.input.elements() * std::int64_t{sizeof(float)},
                   .handover_ns_per_byte = exec::handover_ns_per_byte(),
                   .profiles = {}};
  std::vector<std::unique_ptr<exec::LayerProfiler>> profilers;
  for (const int size : sizes) {
    for (const int count : workers) {
      options.micro_batch_size = size;
      options.workers = count;
      profilers.push_back(std::make_unique<exec::LayerProfiler>(model, data.train, options));
    }
  }
  measure(profilers);
  for (const auto& profiler : profilers) file.profiles.push_back(profiler->profile());
  if (out) {
    *out << to_json(file).dump(1) << '\n';
    out->commit();
  }
  if (arguments.has("json")) {
    print_json(to_json(file));
  } else {
    for (const exec::LayerProfile& profile : file.profiles) print(to_text(profile));
    print(fmt::format("hand-over to another core {} ms a MiB\n",
                      format_number(file.handover_ns_per_byte * (1 << 20) / 1e6)));
  }
  return 0;
}

}  // namespace

Command profile_command() {
  return {.name = "profile",
          .summary = "Measure the costs of each layer of a model on this machine",
          .groups = {{"Model",
                      {{"model", "NAME", "Model to measure"},
                       {"data", "SPEC", "Data that it is fed with (digits)"},
                       {"batch-size", "B[,B...]", "Sizes of a piece to measure (64)"},
                       {"optimizer", "SPEC", "Optimizer of the update (sgd)"},
                       {"weight-decay", "L", "Weight decay (0)"},
                       {"seed", "N", "Seed (0)"}}},
                     {"Measuring",
                      {{"workers", "W[,W...]", "Threads that work at once (1 and all cores)"},
                       {"samples", "N", "Steps behind every mean (20 or more, 1 s of them)"},
                       {"warm-up", "N", "Steps left out before every 10 of them (2)"}}},
                     {"Output", {{"save", "FILE.json", "Write the profile for --profile"}}}},
          .run = run};
}

}  // namespace unlatch::tools
