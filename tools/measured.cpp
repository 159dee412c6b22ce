#include "tools/measured.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "schedules/error.h"

namespace unlatch::tools {
namespace {

using exec::LayerProfile;
using exec::Measurement;

/// A profile as plain numbers, so that two of them can be mixed.
PieceCosts numbers_of(const ProfileFile& file, const LayerProfile& profile) {
  PieceCosts piece;
  const auto ns = [](const Measurement& time) { return static_cast<double>(time.mean_ns); };
  for (const exec::LayerCost& layer : profile.layers) {
    piece.forward.push_back(ns(layer.forward));
    piece.forward_only.push_back(ns(layer.forward_only));
    piece.backward.push_back(ns(layer.backward));
    piece.input_gradient.push_back(ns(layer.input_gradient));
    piece.weight_gradient.push_back(ns(layer.weight_gradient));
    piece.update.push_back(ns(layer.update));
    piece.output_bytes.push_back(static_cast<double>(layer.output_bytes));
    piece.tape_bytes.push_back(static_cast<double>(layer.tape_bytes));
    piece.weight_grad_activation_bytes.push_back(
        static_cast<double>(layer.weight_grad_activation_bytes));
    piece.parameter_bytes.push_back(static_cast<double>(layer.parameter_bytes));
  }
  const auto handover = file.handovers.find(profile.micro_batch_size);
  piece.handover.resize(profile.layers.size());
  if (handover != file.handovers.end()) piece.handover = handover->second;
  piece.input = ns(profile.input);
  piece.target = ns(profile.target);
  piece.loss = ns(profile.loss);
  piece.overhead = ns(profile.overhead);
  piece.input_bytes = static_cast<double>(file.sample_bytes * profile.micro_batch_size);
  piece.optimizer_slots = profile.optimizer_slots;
  return piece;
}

/// a + (b - a) * share, part by part.
PieceCosts mixed(PieceCosts a, const PieceCosts& b, double share) {
  const auto mix = [share](double& x, double y) { x += (y - x) * share; };
  const auto mix_all = [&](std::vector<double>& x, const std::vector<double>& y) {
    for (std::size_t j = 0; j < x.size(); ++j) mix(x[j], y[j]);
  };
  mix_all(a.forward, b.forward);
  mix_all(a.forward_only, b.forward_only);
  mix_all(a.backward, b.backward);
  mix_all(a.input_gradient, b.input_gradient);
  mix_all(a.weight_gradient, b.weight_gradient);
  mix_all(a.update, b.update);
  mix_all(a.output_bytes, b.output_bytes);
  for (std::size_t j = 0; j < a.handover.size(); ++j) {
    mix(a.handover[j].forward_in, b.handover[j].forward_in);
    mix(a.handover[j].forward_out, b.handover[j].forward_out);
    mix(a.handover[j].backward_in, b.handover[j].backward_in);
    mix(a.handover[j].backward_out, b.handover[j].backward_out);
  }
  mix_all(a.tape_bytes, b.tape_bytes);
  mix_all(a.weight_grad_activation_bytes, b.weight_grad_activation_bytes);
  mix_all(a.parameter_bytes, b.parameter_bytes);
  mix(a.input, b.input);
  mix(a.target, b.target);
  mix(a.loss, b.loss);
  mix(a.overhead, b.overhead);
  mix(a.input_bytes, b.input_bytes);
  return a;
}

/// The neighbours of `wanted` among `measured`, and how far it lies between them.
struct Place {
  int lower, upper;
  double share;
};

Place place_of(const std::set<int>& measured, double wanted) {
  const auto above = std::ranges::find_if(measured, [&](int m) { return m >= wanted; });
  if (above == measured.end()) return {*measured.rbegin(), *measured.rbegin(), 0};
  if (above == measured.begin() || *above == wanted) return {*above, *above, 0};
  const int lower = *std::prev(above);
  return {lower, *above, (wanted - lower) / (*above - lower)};
}

PieceCosts measured_at(const ProfileFile& file, int size, int workers) {
  for (const LayerProfile& profile : file.profiles) {
    if (profile.micro_batch_size == size && profile.workers == workers) {
      return numbers_of(file, profile);
    }
  }
  fail("the profile of {} has no measurement of batch size {} with {} workers", file.model, size,
       workers);
}

PieceCosts at_size(const ProfileFile& file, int size, double busy) {
  std::set<int> workers;
  for (const LayerProfile& profile : file.profiles) {
    if (profile.micro_batch_size == size) workers.insert(profile.workers);
  }
  const Place place = place_of(workers, busy);
  return mixed(measured_at(file, size, place.lower), measured_at(file, size, place.upper),
               place.share);
}

/// What is tied has no weights of its own beside the embedding.
void share_tied(const std::vector<exec::LayerCost>& layers, PieceCosts& piece) {
  for (std::size_t j = 0; j < layers.size(); ++j) {
    if (layers[j].tied) piece.update[j] = piece.parameter_bytes[j] = 0;
  }
}

double sum(const std::vector<double>& values, const models::StageRange& range) {
  double total = 0;
  for (int j = range.first; j <= range.last; ++j) total += values[static_cast<std::size_t>(j)];
  return total;
}

nanoseconds whole(double ns) {
  constexpr double most_ns = 4e18;
  require(ns < most_ns, "a task would last longer than 126 years; check the costs of the layers");
  return nanoseconds{std::llround(ns)};
}
}  // namespace

std::int64_t whole_bytes(double bytes) {
  constexpr double most = 9007199254740992.0;
  require(bytes <= most, "a stage would keep {:g} bytes, more than 8 PiB; check the model", bytes);
  return std::llround(bytes);
}

PieceCosts piece_costs(const ProfileFile& file, int size, double busy, int stages) {
  std::set<int> sizes;
  for (const LayerProfile& profile : file.profiles) sizes.insert(profile.micro_batch_size);
  require(size >= *sizes.begin() && size <= *sizes.rbegin(),
          "the profile of {} was measured at batch size{} {}, so pieces of {} samples are outside "
          "it; profile that size too ('unlatch profile --batch-size {},..')",
          file.model, sizes.size() == 1 ? "" : "s", fmt::join(sizes, ", "), size, size);
  const Place place = place_of(sizes, size);
  PieceCosts piece =
      mixed(at_size(file, place.lower, busy), at_size(file, place.upper, busy), place.share);
  if (stages == 1) share_tied(file.profiles.front().layers, piece);
  return piece;
}

std::vector<bool> replaying_stages(const TaskGraph& graph) {
  std::vector<bool> replays(static_cast<std::size_t>(graph.shape().stages_a_copy()), false);
  for (const Task& task : graph.tasks()) {
    if (task.has(replayed))
      replays[static_cast<std::size_t>(graph.shape().model_stage(task.stage).value)] = true;
  }
  return replays;
}

sim::StageTimes stage_times_of(const PieceCosts& piece,
                               const std::vector<models::StageRange>& ranges,
                               const std::vector<bool>& replays, double overlap) {
  sim::StageTimes times;
  for (std::size_t k = 0; k < ranges.size(); ++k) {
    const models::StageRange& range = ranges[k];
    const bool last = k + 1 == ranges.size();
    const exec::HandoverCost& before = piece.handover[static_cast<std::size_t>(range.first)];
    const exec::HandoverCost& behind = piece.handover[static_cast<std::size_t>(range.last)];
    const double input = k == 0 ? piece.input : before.forward_in;
    const double output = last ? piece.target + piece.loss : behind.forward_out;
    const double gradient = (last ? 0 : behind.backward_in) + (k == 0 ? 0 : before.backward_out);
    const auto& kept = replays[k] ? piece.forward_only : piece.forward;
    times.forward.push_back(whole(sum(kept, range) + piece.overhead + input + output));
    times.recompute.push_back(whole(sum(piece.forward, range) + piece.overhead));
    times.backward.push_back(whole(sum(piece.backward, range) + piece.overhead + gradient));
    times.backward_input.push_back(
        whole(sum(piece.input_gradient, range) + piece.overhead + gradient));
    times.backward_weight.push_back(whole(sum(piece.weight_gradient, range) + piece.overhead));
    times.update.push_back(whole(sum(piece.update, range)));
    times.overlap.push_back(overlap);
  }
  // Tensors change hands in shared memory: a pointer.
  times.activation_transfer.assign(ranges.size() - 1, nanoseconds{0});
  times.gradient_transfer = times.activation_transfer;
  return times;
}

MemorySizes memory_sizes_of(const PieceCosts& piece,
                            const std::vector<models::StageRange>& ranges) {
  MemorySizes sizes;
  for (const models::StageRange& range : ranges) {
    const std::int64_t weights = whole_bytes(sum(piece.parameter_bytes, range));
    sizes.activation.push_back(whole_bytes(sum(piece.tape_bytes, range)));
    sizes.weight_grad_activation.push_back(
        whole_bytes(sum(piece.weight_grad_activation_bytes, range)));
    const auto before = static_cast<std::size_t>(std::max(range.first - 1, 0));
    sizes.input.push_back(
        whole_bytes(range.first == 0 ? piece.input_bytes : piece.output_bytes[before]));
    sizes.weight.push_back(weights);
    sizes.gradient.push_back(weights);
    sizes.optimizer.push_back(piece.optimizer_slots * weights);
    sizes.output.push_back(whole_bytes(piece.output_bytes[static_cast<std::size_t>(range.last)]));
  }
  sizes.output_gradient = sizes.output;
  return sizes;
}

}  // namespace unlatch::tools
