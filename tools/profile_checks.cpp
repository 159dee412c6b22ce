#include "tools/profile_checks.h"

#include <algorithm>

#include "models/optimizer_spec.h"
#include "schedules/error.h"
#include "tools/measurement_json.h"

namespace unlatch::tools {
namespace {

using models::JsonValue;

double in_us(std::int64_t ns) { return static_cast<double>(ns) / ns_per_us; }

/// The least and the most that any constants give; the name is known.
void require_slots_fit(const JsonValue& place, const exec::LayerProfile& profile) {
  const auto spec = models::OptimizerSpec::parse(profile.optimizer);
  const int usual = spec.slots();
  const int least = spec.coasts() ? 0 : usual;
  const int most = profile.optimizer == "rmsprop" ? usual + 2 : usual;  // momentum, centered
  require(profile.optimizer_slots >= least && profile.optimizer_slots <= most,
          "{}: {}, but '{}' keeps {} number{} for each parameter",
          place.at("optimizer_slots").place(), profile.optimizer_slots, profile.optimizer,
          least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most),
          most == 1 ? "" : "s");
}

void require_bytes_fit(const JsonValue& place, const exec::LayerCost& layer,
                       std::size_t input_bytes) {
  constexpr std::size_t most_times = 1000;
  const std::size_t known = input_bytes + layer.output_bytes + layer.parameter_bytes;
  const auto check = [&](const char* key, std::size_t bytes) {
    require(bytes / most_times <= known,
            "{}: {} is more than {} times the layer's input, output and parameters together, {}",
            place.at(key).place(), bytes, most_times, known);
  };
  check("tape_bytes", layer.tape_bytes);
  check("weight_grad_activation_bytes", layer.weight_grad_activation_bytes);
}

void require_same_layer(const JsonValue& place, const exec::LayerCost& layer, int batch_size,
                        const exec::LayerCost& first, int first_batch_size) {
  require(layer.parameter_bytes == first.parameter_bytes, "{}: {}, but {} in profiles[0]",
          place.at("parameter_bytes").place(), layer.parameter_bytes, first.parameter_bytes);
  const double sample = static_cast<double>(layer.output_bytes) / batch_size;
  const double other = static_cast<double>(first.output_bytes) / first_batch_size;
  const double most_times = batch_size == first_batch_size ? 1 : 16;
  require(sample <= most_times * other && other <= most_times * sample,
          "{}: {} of {} samples, but {} of {} in profiles[0]", place.at("output_bytes").place(),
          layer.output_bytes, batch_size, first.output_bytes, first_batch_size);
}

}  // namespace

void require_consistent(const JsonValue& place, const exec::LayerProfile& profile,
                        std::int64_t sample_bytes) {
  if (place.has("optimizer_slots")) require_slots_fit(place, profile);
  auto input_bytes =
      static_cast<std::size_t>(sample_bytes) * static_cast<std::size_t>(profile.micro_batch_size);
  const auto layers = place.at("layers").list();
  for (std::size_t j = 0; j < layers.size(); ++j) {
    const exec::LayerCost& layer = profile.layers[j];
    require_bytes_fit(layers[j], layer, input_bytes);
    require_halves_fit(layers[j], layer.backward, layer.input_gradient, layer.weight_gradient,
                       profile.samples);
    input_bytes = layer.output_bytes;
  }
}

void require_times_of_cpu(const JsonValue& place, const exec::LayerProfile& profile) {
  const JsonValue step = place.at("step_us");
  const auto check = [&](const JsonValue& part, const exec::Measurement& time,
                         bool in_step = true) {
    if (in_step) require_no_longer(part, time, step, profile.step);
    require_mean_of_times(part, time, profile.samples);
  };
  check(step, profile.step);
  check(place.at("input_us"), profile.input);
  check(place.at("target_us"), profile.target);
  check(place.at("loss_us"), profile.loss);
  check(place.at("overhead_us"), profile.overhead);
  const auto layers = place.at("layers").list();
  for (std::size_t j = 0; j < layers.size(); ++j) {
    const exec::LayerCost& layer = profile.layers[j];
    check(layers[j].at("forward_us"), layer.forward);
    check(layers[j].at("backward_us"), layer.backward);
    check(layers[j].at("update_us"), layer.update);
    check(layers[j].at("forward_only_us"), layer.forward_only, false);
    check(layers[j].at("input_gradient_us"), layer.input_gradient, false);
    check(layers[j].at("weight_gradient_us"), layer.weight_gradient, false);
  }
}

void require_fits_others(const JsonValue& place, const exec::LayerProfile& profile,
                         const std::vector<exec::LayerProfile>& others) {
  for (std::size_t i = 0; i < others.size(); ++i) {
    const bool same = others[i].micro_batch_size == profile.micro_batch_size &&
                      others[i].workers == profile.workers;
    require(!same, "{}: it is of batch size {} and {} worker{}, as profiles[{}] is", place.place(),
            profile.micro_batch_size, profile.workers, profile.workers == 1 ? "" : "s", i);
  }
  if (others.empty()) return;
  const exec::LayerProfile& first = others.front();
  require(first.optimizer == profile.optimizer, "{}: '{}', but profiles[0] is of '{}'",
          place.at("optimizer").place(), profile.optimizer, first.optimizer);
  require(first.optimizer_slots == profile.optimizer_slots,
          "{}: {} optimizer slots, but "
          "profiles[0] has {}",
          place.place(), profile.optimizer_slots, first.optimizer_slots);
  require(first.layers.size() == profile.layers.size(), "{}: {} layers, but profiles[0] has {}",
          place.at("layers").place(), profile.layers.size(), first.layers.size());
  const auto layers = place.at("layers").list();
  for (std::size_t j = 0; j < layers.size(); ++j) {
    require(first.layers[j].name == profile.layers[j].name,
            "{}: '{}', but layer {} of profiles[0] is '{}'", layers[j].at("name").place(),
            profile.layers[j].name, j, first.layers[j].name);
    require_same_layer(layers[j], profile.layers[j], profile.micro_batch_size, first.layers[j],
                       first.micro_batch_size);
  }
}

void require_halves_fit(const JsonValue& place, const exec::Measurement& backward,
                        const exec::Measurement& input_gradient,
                        const exec::Measurement& weight_gradient, int samples) {
  constexpr int least_samples = 5;
  constexpr std::int64_t most_times = 50, least_ns = 10'000;
  if (samples < least_samples) return;
  const auto far_above = [&](std::int64_t lower, std::int64_t upper) {
    return lower - upper > least_ns && lower / most_times > upper;
  };
  const std::int64_t lower = input_gradient.lower_ns + weight_gradient.lower_ns;
  const std::int64_t upper = input_gradient.upper_ns + weight_gradient.upper_ns;
  require(!far_above(lower, backward.upper_ns) && !far_above(backward.lower_ns, upper),
          "{}: the median of B, {} us, and those of I and W, {} and {} us, are more than {} times "
          "apart, but B does what I and W do",
          place.place(), in_us(backward.median_ns), in_us(input_gradient.median_ns),
          in_us(weight_gradient.median_ns), most_times);
}

}  // namespace unlatch::tools
