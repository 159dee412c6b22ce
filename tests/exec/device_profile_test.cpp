// Layers profiled on a device that is none: its clock's times come out layer by layer, and the
// sizes are those of longer stages.
#include "exec/device_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/data_feed.h"
#include "schedules/error.h"
#include "tests/exec/dnn_support.h"
#include "tests/support/fake_device.h"

namespace unlatch::exec {
namespace {

using std::chrono::nanoseconds;
using testing_support::FakeDeviceLibrary;
using testing_support::TaskTime;

models::Dataset images() {
  std::vector<std::int32_t> labels;
  for (int s = 0; s < 16; ++s) labels.push_back(s % 4);
  return dataset_of({3, 8, 8}, 4, std::vector<std::uint8_t>(16 * 192, 100), labels, 255);
}

constexpr int input_ns = 7, loss_ns = 5;

/// Of one layer.
std::int64_t base_ns(Op op, int layer) {
  const auto times_the_layer = [layer](int ns) { return std::int64_t{ns} * (layer + 1); };
  switch (op) {
    case Op::forward:
      return times_the_layer(1000);  // without a tape 900
    case Op::recompute:
      return times_the_layer(1000);
    case Op::backward:
      return times_the_layer(2000);
    case Op::backward_input:
      return times_the_layer(1200);
    case Op::backward_weight:
      return times_the_layer(800);
    default:
      return times_the_layer(10);
  }
}

nanoseconds chosen_time(const TaskGraph& graph, const Task& task) {
  std::int64_t ns = base_ns(task.op, task.stage.value);
  if (task.op == Op::forward) {
    if (task.has(replayed)) ns = ns / 10 * 9;
    if (graph.shape().is_first(task.stage)) ns += input_ns;
    if (graph.shape().is_last(task.stage)) ns += loss_ns;
  }
  return nanoseconds(ns);
}

LayerProfile profiled(const models::Model& model, const models::Dataset& data,
                      const ProfileOptions& options, const TaskTime& time = chosen_time) {
  const FakeDeviceLibrary library(time);
  const DeviceSettings where;
  return profile_layers_on(library, where, model, data, options);
}

void expect_exactly(const Measurement& found, std::int64_t ns, const std::string& what) {
  EXPECT_EQ(found.mean_ns, ns) << what;
  EXPECT_EQ(found.median_ns, ns) << what;
  EXPECT_EQ(found.lower_ns, ns) << what;
  EXPECT_EQ(found.upper_ns, ns) << what;
}

void expect_chosen_times(const LayerProfile& profile) {
  std::int64_t step = 0;
  const auto layers = static_cast<int>(profile.layers.size());
  for (int j = 0; j < layers; ++j) {
    const LayerCost& layer = profile.layers[static_cast<std::size_t>(j)];
    const std::string what = fmt::format("layer {}, {}", j, layer.name);
    expect_exactly(layer.forward, base_ns(Op::forward, j), what);
    expect_exactly(layer.forward_only, base_ns(Op::forward, j) / 10 * 9, what);
    expect_exactly(layer.backward, base_ns(Op::backward, j), what);
    expect_exactly(layer.input_gradient, base_ns(Op::backward_input, j), what);
    expect_exactly(layer.weight_gradient, base_ns(Op::backward_weight, j), what);
    expect_exactly(layer.update, base_ns(Op::update, j), what);
    step += base_ns(Op::forward, j) + base_ns(Op::backward, j) + base_ns(Op::update, j);
  }
  expect_exactly(profile.input, layers > 1 ? input_ns : input_ns + loss_ns, "input");
  expect_exactly(profile.loss, layers > 1 ? loss_ns : 0, "loss");
  expect_exactly(profile.step, step + input_ns + loss_ns, "step");
  for (const Measurement& none : {profile.target, profile.overhead}) {
    expect_exactly(none, 0, "what cannot be told apart");
  }
}

/// As many layers as a test wants, and no convolution to wait for.
models::Model perceptron(int layers) {
  models::Model model{.name = "perceptron", .input = {3, 8, 8}, .classes = 4, .layers = {}};
  for (int j = 0; j < layers; ++j) {
    model.layers.push_back(
        {.name = fmt::format("linear{}", j), .kind = models::Linear{.out_features = 4}});
  }
  return model;
}

TEST(DeviceProfile, HoldsTheDevicesTimesLayerByLayer) {
  for (const models::Model& model : {small_network(), perceptron(2), perceptron(1)}) {
    const models::Dataset data = images();
    const LayerProfile profile = profiled(model, data, {.micro_batch_size = 4, .samples = 3});
    EXPECT_EQ(profile.samples, 3);
    EXPECT_EQ(profile.left_out, 2);
    EXPECT_EQ(profile.workers, 1);
    EXPECT_EQ(profile.micro_batch_size, 4);
    ASSERT_EQ(profile.layers.size(), model.layers.size());
    expect_chosen_times(profile);
  }
}

// O36: what the first steps cost on top is in no sample; without a warm-up it would be.
TEST(DeviceProfile, LeavesTheWarmUpOfBothHalvesOut) {
  constexpr int samples = 4;
  for (const int warm_up : {0, 1, 3}) {
    const TaskTime slow_at_first = [=](const TaskGraph& graph, const Task& task) {
      const int half = std::max(graph.shape().batches / 2, 1);
      const bool first = task.micro_batch.value % half < std::max(warm_up, 1);
      return chosen_time(graph, task) * (first ? 100 : 1);
    };
    const LayerProfile profile =
        profiled(perceptron(3), images(),
                 {.micro_batch_size = 4, .samples = samples, .warm_up = warm_up}, slow_at_first);
    EXPECT_EQ(profile.samples, samples);
    EXPECT_EQ(profile.left_out, warm_up);
    if (warm_up > 0) {
      expect_chosen_times(profile);
    } else {
      EXPECT_GT(profile.layers[1].backward.mean_ns, base_ns(Op::backward, 1));
      EXPECT_GT(profile.layers[1].input_gradient.mean_ns, base_ns(Op::backward_input, 1));
    }
  }
}

TEST(DeviceProfile, GoesOnUntilTheSamplesTakeTheTimeAskedFor) {
  const models::Dataset data = images();
  ProfileOptions options{.micro_batch_size = 4, .samples = 2};
  const std::int64_t step = profiled(perceptron(2), data, options).step.mean_ns;
  options.least_time = nanoseconds(600 * step);  // more than one run takes on
  const LayerProfile profile = profiled(perceptron(2), data, options);
  EXPECT_EQ(profile.samples, 600);
  EXPECT_EQ(profile.left_out, 3 * options.warm_up);
  expect_chosen_times(profile);
}

// A clock that wavers: the first F may seem shorter than its own layer.
TEST(DeviceProfile, HasNoNegativeTimes) {
  const TaskTime slow_to_recompute = [](const TaskGraph& graph, const Task& task) {
    return task.op == Op::recompute ? nanoseconds(1'000'000) : chosen_time(graph, task);
  };
  const LayerProfile profile =
      profiled(perceptron(2), images(), {.micro_batch_size = 4, .samples = 2}, slow_to_recompute);
  EXPECT_EQ(profile.input.mean_ns, 0);
  EXPECT_EQ(profile.loss.median_ns, 0);
}

TEST(DeviceProfile, StopsBetweenRunsWhenCancelled) {
  EXPECT_THROW(profiled(perceptron(2), images(),
                        {.micro_batch_size = 4,
                         .samples = 1,
                         .least_time = std::chrono::hours(1),
                         .cancelled = [] { return true; }}),
               RunError);
}

TEST(DeviceProfile, RefusesOptionsWithoutSense) {
  const models::Model model = perceptron(2);
  const models::Dataset data = images();
  for (const ProfileOptions& options : {ProfileOptions{.micro_batch_size = 4, .samples = 0},
                                        ProfileOptions{.micro_batch_size = 4, .warm_up = -1},
                                        ProfileOptions{.micro_batch_size = 64}}) {
    EXPECT_THROW(profiled(model, data, options), Error);
  }
}

/// Bytes that one stage over all layers keeps after F, and after I.
std::pair<std::size_t, std::size_t> bytes_of_one_stage(const models::Model& model,
                                                       const models::Dataset& data, int samples) {
  const auto layers = static_cast<int>(model.layers.size());
  Trainer whole(model, {layers}, {.micro_batch_size = samples});
  BufferPool pool;
  std::vector<int> first(static_cast<std::size_t>(samples));
  for (int s = 0; s < samples; ++s) first[static_cast<std::size_t>(s)] = s;
  std::unique_ptr<StageModule::Tape> tape;
  StageModule& stage = *whole.stages.front();
  const Tensor output = stage.forward(whole.weights[0], input_of(data, first, model.input, pool),
                                      StageModule::Pass::normal, &tape, whole.workspace);
  const std::size_t kept = tape->bytes();
  Tensor gradient;
  stage.loss(output, target_of(data, first, pool), 1, &gradient, whole.workspace);
  stage.backward_input(whole.weights[0], *tape, gradient, 1, false, whole.workspace);
  return {kept, tape->bytes()};
}

/// What the layers keep adds up to what a stage of them all keeps: nothing is counted twice.
void expect_sums_of_one_stage(const models::Model& model, const models::Dataset& data) {
  constexpr int samples = 4;
  const LayerProfile profile =
      profiled(model, data, {.micro_batch_size = samples, .samples = 1, .warm_up = 0});
  expect_chosen_times(profile);
  std::size_t tape = 0, for_weight_gradient = 0, parameters = 0;
  const auto shapes = model.shapes();
  for (std::size_t j = 0; j < profile.layers.size(); ++j) {
    const LayerCost& layer = profile.layers[j];
    tape += layer.tape_bytes;
    for_weight_gradient += layer.weight_grad_activation_bytes;
    parameters += layer.parameter_bytes;
    EXPECT_EQ(layer.name, model.layers[j].name);
    EXPECT_GE(layer.output_bytes,
              static_cast<std::size_t>(shapes[j + 1].elements()) * samples * sizeof(float));
  }
  const auto [whole_tape, whole_for_weight_gradient] = bytes_of_one_stage(model, data, samples);
  EXPECT_EQ(tape, whole_tape);
  EXPECT_EQ(for_weight_gradient, whole_for_weight_gradient);
  EXPECT_EQ(parameters,
            models::initial_weights(model, {0, static_cast<int>(shapes.size()) - 2}, 0).size() *
                sizeof(float));
}

TEST(DeviceProfile, SizesAddUpToThoseOfOneStage) {
  expect_sums_of_one_stage(small_network(), images());
  const models::Dataset digits = models::load_data("digits").train;
  for (const char* name : {"mlp", "lenet", "resnet20"}) {
    SCOPED_TRACE(name);
    expect_sums_of_one_stage(models::make_model(name, digits.shape, digits.classes), digits);
  }
}

// The two profiles of the same library agree on what a layer holds.
TEST(DeviceProfile, SizesAreThoseOfTheCpusProfile) {
  const models::Model model = small_network();
  const models::Dataset data = images();
  const ProfileOptions options{.micro_batch_size = 4, .samples = 1};
  const LayerProfile expected = profile_layers(model, data, options);
  const LayerProfile found = profiled(model, data, options);
  for (std::size_t j = 0; j < expected.layers.size(); ++j) {
    SCOPED_TRACE(j);
    EXPECT_EQ(found.layers[j].output_bytes, expected.layers[j].output_bytes);
    EXPECT_EQ(found.layers[j].tape_bytes, expected.layers[j].tape_bytes);
    EXPECT_EQ(found.layers[j].weight_grad_activation_bytes,
              expected.layers[j].weight_grad_activation_bytes);
    EXPECT_EQ(found.layers[j].parameter_bytes, expected.layers[j].parameter_bytes);
  }
}

}  // namespace
}  // namespace unlatch::exec
