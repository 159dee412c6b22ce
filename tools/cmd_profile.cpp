// unlatch profile: what each layer of a model costs on this machine, or another way
// of making a profile.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "exec/device_profile.h"
#include "exec/handover.h"
#include "models/dataset.h"
#include "schedules/error.h"
#include "sim/units.h"
#include "tools/command.h"
#include "tools/device_option.h"
#include "tools/model_options.h"
#include "tools/placed_errors.h"
#include "tools/profile_file.h"
#include "tools/profile_output.h"
#include "tools/table.h"
#include "tools/text.h"
#include "tools/training.h"

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

std::string layers_table(const exec::LayerProfile& profile) {
  Table table({"<layer", "F ms", "F without tape ms", "B ms", "I ms", "W ms", "U ms", "output",
               "tape", "kept for W", "parameters"});
  for (const exec::LayerCost& layer : profile.layers) {
    table.add({layer.name, ms(layer.forward), ms(layer.forward_only), ms(layer.backward),
               ms(layer.input_gradient), ms(layer.weight_gradient), ms(layer.update),
               size(layer.output_bytes), size(layer.tape_bytes),
               size(layer.weight_grad_activation_bytes), size(layer.parameter_bytes)});
  }
  return table.text();
}

std::string handovers_table(const exec::LayerProfile& profile,
                            const std::vector<exec::HandoverCost>& costs) {
  Table table({"<layer", "F, input ms", "F, output ms", "B, gradient ms", "B, result ms"});
  const auto in_ms = [](double ns) { return format_number(std::round(ns / 1e3) / 1e3); };
  for (std::size_t j = 0; j < costs.size(); ++j) {
    table.add({profile.layers[j].name, in_ms(costs[j].forward_in), in_ms(costs[j].forward_out),
               in_ms(costs[j].backward_in), in_ms(costs[j].backward_out)});
  }
  return table.text();
}

std::string to_text(const exec::LayerProfile& profile) {
  return fmt::format(
      "batch size {}, {} worker{}: means of {} steps, {} more left out to warm up\n{}"
      "input {} ms, target {} ms, loss {} ms, overhead of a call {} ms, whole step {} ms\n\n",
      profile.micro_batch_size, profile.workers, profile.workers == 1 ? "" : "s", profile.samples,
      profile.left_out, layers_table(profile), ms(profile.input), ms(profile.target),
      ms(profile.loss), ms(profile.overhead), ms(profile.step));
}

/// What cannot be told apart on a device is said to be so.
std::string to_text(const exec::LayerProfile& profile, const std::string& device) {
  return fmt::format(
      "batch size {} on {}: means of {} steps, {} more left out to warm up\n{}"
      "input {} ms, loss with its target {} ms, whole step {} ms; a layer's times hold its "
      "launch\n\n",
      profile.micro_batch_size, device, profile.samples, profile.left_out, layers_table(profile),
      ms(profile.input), ms(profile.loss), ms(profile.step));
}

std::string to_text(const ProfileFile& file) {
  std::string text;
  for (const exec::LayerProfile& profile : file.profiles) {
    text += file.of_cpu() ? to_text(profile) : to_text(profile, file.device);
  }
  for (const auto& [size, costs] : file.handovers) {
    text += fmt::format("batch size {}: what a cut costs the layers beside it\n{}\n", size,
                        handovers_table(file.profiles.front(), costs));
  }
  return text;
}

exec::ProfileOptions asked_options(const Arguments& arguments, int usual_warm_up) {
  exec::ProfileOptions options;
  constexpr int most = 100'000;
  if (arguments.has("samples")) {
    options.samples = arguments.whole("samples", 20, 1, most);
  } else {
    options.least_time = std::chrono::seconds(1);
  }
  options.warm_up = arguments.whole("warm-up", usual_warm_up, 0, most);
  options.optimizer = asked_optimizer(arguments);
  options.seed = arguments.seed();
  return options;
}

/// One burst of each that wants more; false when none does.
template <class Profilers>
bool measured_more(Profilers& profilers) {
  bool more = false;
  for (auto& profiler : profilers) {
    if (!profiler->wants_more()) continue;
    profiler->measure();
    more = true;
  }
  return more;
}

/// What is measured, on whatever device.
struct Subject {
  models::DataSplit data;
  models::Model model;
  std::vector<int> sizes;  ///< of a piece
};

void profile_cpu(const Arguments& arguments, const Subject& subject, ProfileFile& file) {
  constexpr int usual_warm_up = 2;
  constexpr int most_workers = 1024;
  const auto workers = asked_list(arguments, "workers", usual_workers(), most_workers);
  exec::ProfileOptions options = asked_options(arguments, usual_warm_up);
  std::vector<std::unique_ptr<exec::LayerProfiler>> profilers;
  std::vector<std::unique_ptr<exec::HandoverProfiler>> handovers;
  for (const int size : subject.sizes) {
    options.micro_batch_size = size;
    handovers.push_back(
        std::make_unique<exec::HandoverProfiler>(subject.model, subject.data.train, options));
    for (const int count : workers) {
      options.workers = count;
      profilers.push_back(
          std::make_unique<exec::LayerProfiler>(subject.model, subject.data.train, options));
    }
  }
  // Round by round, so that every measurement sees the machine's good and bad seconds alike.
  for (bool more = true; more;) {
    more = measured_more(profilers);
    more = measured_more(handovers) || more;
  }
  for (const auto& profiler : profilers) file.profiles.push_back(profiler->profile());
  for (std::size_t s = 0; s < handovers.size(); ++s) {
    file.handovers[subject.sizes[s]] = handovers[s]->costs();
  }
}

void profile_device(const Arguments& arguments, const AskedDevice& device, const Subject& subject,
                    ProfileFile& file) {
  constexpr int usual_warm_up = 10;  // kernels are loaded and clocks go up
  exec::ProfileOptions options = asked_options(arguments, usual_warm_up);
  file.device = device.name;
  file.precision = device.settings.precision;
  for (const int size : subject.sizes) {
    options.micro_batch_size = size;
    file.profiles.push_back(exec::profile_layers_on(exec::cuda_library(), device.settings,
                                                    subject.model, subject.data.train, options));
  }
}

/// Throws Error for what has no meaning on a GPU.
std::optional<AskedDevice> asked_device_to_measure(const Arguments& arguments) {
  const std::vector<int> numbers = asked_device_numbers(arguments);
  require(numbers.size() <= 1, "{} '{}': one GPU is profiled at a time; name one",
          arguments.place("device"), *arguments.text("device"));
  require(numbers.empty() || !arguments.has("workers"),
          "{} counts threads of the CPU and has no meaning with {} {}; leave it out",
          arguments.place("workers"), arguments.place("device"), *arguments.text("device"));
  return asked_device(arguments, 1);
}

int run(const Arguments& arguments) {
  require(!arguments.has("machine") || !arguments.has("from-trace"),
          "--machine and --from-trace make profiles of different things; leave one of them out");
  if (arguments.has("machine")) return profile_machine(arguments);
  if (arguments.has("from-trace")) return profile_traces(arguments);
  models::DataSplit data = reading(
      arguments, "data", [&] { return models::load_data(arguments.text("data", "digits")); });
  models::Model model = asked_model_for(arguments, data);
  auto sizes = asked_list(arguments, "batch-size", {64}, data.train.samples());
  const Subject subject{std::move(data), std::move(model), std::move(sizes)};
  for (const int samples : subject.sizes) {
    require_piece_fits(*arguments.text("model"), subject.model, samples);
  }
  require_trains_there(arguments, subject.model);
  const auto device = asked_device_to_measure(arguments);
  ProfileOutput output(arguments);
  ProfileFile file{.model = *arguments.text("model"),
                   .data = arguments.text("data", "digits"),
                   .sample_bytes = subject.model.input.elements() * std::int64_t{sizeof(float)},
                   .profiles = {}};
  if (device) {
    profile_device(arguments, *device, subject, file);
  } else {
    profile_cpu(arguments, subject, file);
  }
  output.give(to_json(file), to_text(file));
  return 0;
}

}  // namespace

Command profile_command() {
  return {
      .name = "profile",
      .summary = "Measure the costs of each layer of a model on this machine",
      .groups =
          {{"Instead of measuring a model",
            {{"from-trace", "FILE",
              "PyTorch profile of a rank, or a directory of them; once for each",
              Flag::Kind::repeated},
             {"machine", "", "This machine's cores, as hardware for --cluster",
              Flag::Kind::presence}}},
           {"Model",
            {{"model", "NAME", "Model to measure"},
             {"data", "SPEC", "Data that it is fed with (digits)"},
             {"batch-size", "B[,B...]", "Sizes of a piece to measure (64)"},
             {"optimizer", "SPEC", optimizer_help},
             {"weight-decay", "L", "Weight decay (0)"},
             {"seed", "N", "Seed (0)"}}},
           {"Measuring",
            {{"device", "WHERE", "cpu, cuda or cuda:N (cpu)"},
             {"precision", "P", "On a GPU: fp32, tf32, bf16 or fp16 (fp32)"},
             {"workers", "W[,W...]", "CPU threads that work at once (1 and all cores)"},
             {"samples", "N", "Steps behind every mean (20 or more, 1 s of them)"},
             {"warm-up", "N",
              "Steps left out before every 10 of them (2), on a GPU before every run (10), of a "
              "trace (1)"}}},
           {"Output",
            {{"save", "FILE.json",
              "Write the profile for --profile, the hardware for --cluster"}}}},
      .run = run};
}

}  // namespace unlatch::tools
