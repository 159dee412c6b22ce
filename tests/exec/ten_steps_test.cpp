// Ten training steps of every kind of layer and by every optimizer, through the executor, against
// what PyTorch makes of the same weights and batches (tests/torch/ten_steps.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "exec/cpu_backend.h"
#include "exec/dnn_stage.h"
#include "exec/evaluate.h"
#include "exec/executor.h"
#include "exec/stage_runner.h"
#include "models/model_file.h"
#include "models/safetensors.h"
#include "schedules/registry.h"
#include "tests/exec/network_run.h"

namespace unlatch::exec {
namespace {

using models::NamedTensor;
using Floats = std::vector<float>;

constexpr int batches = 10, batch_size = 4;
constexpr const char* network_of_optimizers = "network of the optimizers";

const models::TensorFile& pytorch() {
  static const models::TensorFile file =
      models::read_safetensors(UNLATCH_SOURCE_DIR "/tests/exec/data/ten_steps.safetensors");
  return file;
}

std::vector<NamedTensor> tensors_under(const std::string& prefix) {
  std::vector<NamedTensor> found;
  for (const NamedTensor& tensor : pytorch().tensors) {
    if (tensor.name.starts_with(prefix)) found.push_back(tensor);
  }
  return found;
}

const Floats& values_of(const std::string& name) {
  const auto found = std::ranges::find(pytorch().tensors, name, &NamedTensor::name);
  if (found == pytorch().tensors.end()) throw Error("no tensor '" + name + "'");
  return found->values;
}

/// What follows a word in the metadata's keys.
std::vector<std::string> names_after(const std::string& word) {
  std::vector<std::string> names;
  for (const auto& [key, value] : pytorch().metadata) {
    if (key.starts_with(word)) names.push_back(key.substr(word.size()));
  }
  return names;
}

models::Model network_named(const std::string& name) {
  return models::parse_model(pytorch().metadata.at("model of " + name), name);
}

/// The batches of the file, one behind the other.
class GivenBatches : public Feed {
 public:
  GivenBatches(const Floats& inputs, const Floats& labels, int micro_batches)
      : inputs_(inputs), labels_(labels.begin(), labels.end()), parts_(batches * micro_batches) {}

  Tensor input(MicroBatch i) override { return part_of(inputs_, i); }
  Tensor target(MicroBatch i) override { return part_of(labels_, i); }
  Share share(MicroBatch i) const override {
    const int parts = parts_ / batches;
    const int samples = static_cast<int>(labels_.size()) / parts_;
    return {.first_sample = i.value % parts * samples, .weight = 1};
  }

 private:
  template <class T>
  Tensor part_of(const std::vector<T>& all, MicroBatch i) {
    const std::size_t size = all.size() / static_cast<std::size_t>(parts_);
    const Tensor part = pool_.take(size * sizeof(T));
    std::copy_n(all.data() + static_cast<std::size_t>(i.value) * size, size, part.data<T>());
    return part;
  }

  BufferPool pool_;
  Floats inputs_;
  std::vector<std::int32_t> labels_;
  int parts_;
};

struct Way {
  std::string schedule;
  int stages;
  int micro_batches;
};

const std::vector<Way> ways = {
    {"bp", 1, 1}, {"bp", 2, 1}, {"1f1b", 2, 2}, {"zb-h1", 2, 2}, {"gpipe:recompute=always", 2, 2}};

/// What the file calls a training, which begins at a network.
struct Training {
  std::string network;
  std::string name;
  std::string optimizer;
  double rate = 0;
  Way way;
};

struct Trained {
  Floats weights;
  Floats statistics;
  Floats losses;  ///< of each batch
};

/// The weights of all stages, which lie in the runner's memory, as the file has them.
std::vector<Tensor> begin_with(StageRunner& runner, int stages, const std::string& network) {
  Floats before;
  for (const NamedTensor& tensor : tensors_under(network + "/before/weights/")) {
    before.insert(before.end(), tensor.values.begin(), tensor.values.end());
  }
  std::vector<Tensor> weights;
  std::size_t taken = 0;
  for (const Stage k : up_to<Stage>(stages)) {
    weights.push_back(runner.weights(k));
    const std::span<float> of_stage = weights.back().as<float>();
    if (before.size() - taken < of_stage.size()) throw Error(network + ": too few weights");
    std::copy_n(before.data() + taken, of_stage.size(), of_stage.begin());
    taken += of_stage.size();
  }
  EXPECT_EQ(taken, before.size());
  return weights;
}

Trained train(const Training& training, int steps) {
  const Way& way = training.way;
  const models::Model model = network_named(training.network);
  const TaskGraph graph =
      ScheduleSpec::parse(way.schedule)
          .make({.stages = way.stages, .micro_batches = way.micro_batches, .batches = steps})
          .build();
  const auto stages = make_dnn_stages(
      model, models::uniform_partition(static_cast<int>(model.layers.size()), way.stages),
      {.micro_batch_size = batch_size / way.micro_batches,
       .optimizer = models::OptimizerSpec::parse(training.optimizer)});
  std::vector<StageModule*> modules;
  for (const auto& stage : stages) modules.push_back(stage.get());
  const std::string data = model.input.is_sequence ? "text" : "images";
  GivenBatches feed(values_of(data), values_of("labels of " + data), way.micro_batches);
  Trained trained;
  trained.losses.resize(static_cast<std::size_t>(steps));
  Observer observer;
  observer.loss = [&](MicroBatch i, const Loss& loss) {
    trained.losses[static_cast<std::size_t>(i.value / way.micro_batches)] +=
        static_cast<float>(loss.loss / way.micro_batches);
  };
  StageRunner runner(
      graph, modules, feed, [&](int) { return training.rate; }, observer);
  const std::vector<Tensor> weights = begin_with(runner, way.stages, training.network);
  CpuBackend backend(graph, runner);
  exec::run(graph, backend);
  trained.weights = joined_weights(weights);
  trained.statistics = joined_statistics(stages);
  return trained;
}

/// Tensor by tensor, of lengths: 1e-4 of the values, and of how far they are from those before.
void expect_close(const Floats& found, const Floats& expected,
                  const std::vector<NamedTensor>& before) {
  ASSERT_EQ(found.size(), expected.size());
  std::ptrdiff_t first = 0;
  for (const NamedTensor& tensor : before) {
    const std::ptrdiff_t end = first + std::ssize(tensor.values);
    ASSERT_LE(end, std::ssize(found)) << tensor.name;
    const Floats ours(found.begin() + first, found.begin() + end);
    const Floats theirs(expected.begin() + first, expected.begin() + end);
    const double difference = relative_difference(ours, theirs);
    EXPECT_LE(difference, 1e-4) << tensor.name;
    EXPECT_LE(difference, 1e-4 * relative_difference(tensor.values, theirs)) << tensor.name;
    first = end;
  }
  EXPECT_EQ(first, std::ssize(found));
}

void expect_pytorchs_steps(const Training& training) {
  for (const int steps : {1, batches}) {
    const std::string after = training.name + "/after " + std::to_string(steps);
    SCOPED_TRACE(after + ", " + training.way.schedule + " on " +
                 std::to_string(training.way.stages));
    const Trained trained = train(training, steps);
    expect_close(trained.weights, values_of(after + "/weights"),
                 tensors_under(training.network + "/before/weights/"));
    const Floats& losses = values_of(training.name + "/losses");
    for (std::size_t n = 0; n < trained.losses.size(); ++n) {
      EXPECT_NEAR(trained.losses[n], losses.at(n), 1e-4 * losses.at(n)) << "batch " << n;
    }
    if (trained.statistics.empty()) continue;
    expect_close(trained.statistics, values_of(after + "/statistics"),
                 tensors_under(training.network + "/before/statistics/"));
  }
}

double rate_of(const std::string& name) {
  return std::stod(pytorch().metadata.at("rate of " + name));
}

TEST(TenSteps, OfEveryLayerAreThoseOfPyTorch) {
  for (const std::string& name : names_after("model of ")) {
    if (name == network_of_optimizers) continue;
    const bool has_statistics = !tensors_under(name + "/before/statistics/").empty();
    for (const Way& way : ways) {
      // Batch norms normalise each micro-batch by itself; else the parts make no difference.
      const int parts = has_statistics ? way.micro_batches : 1;
      expect_pytorchs_steps({.network = name,
                             .name = name + "/in " + std::to_string(parts),
                             .optimizer = "momentum:momentum=0.9",
                             .rate = rate_of(name),
                             .way = way});
    }
  }
}

void add_kinds(const std::vector<models::Layer>& layers, std::set<std::size_t>& kinds) {
  for (const models::Layer& layer : layers) {
    kinds.insert(layer.kind.index());
    const auto* residual = std::get_if<models::Residual>(&layer.kind);
    if (residual == nullptr) continue;
    add_kinds(residual->body, kinds);
    add_kinds(residual->shortcut, kinds);
  }
}

TEST(TenSteps, LeaveNoKindOfLayerOut) {
  std::set<std::size_t> kinds;
  for (const std::string& name : names_after("model of ")) {
    add_kinds(network_named(name).layers, kinds);
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<decltype(models::Layer::kind)>);
}

TEST(TenSteps, ByEveryOptimizerAreThoseOfPyTorch) {
  std::set<std::string, std::less<>> optimizers;
  for (const std::string& spec : names_after("rate of ")) {
    if (pytorch().metadata.contains("model of " + spec)) continue;
    optimizers.insert(models::OptimizerSpec::parse(spec).name);
    for (const Way& way : ways) {
      expect_pytorchs_steps({.network = network_of_optimizers,
                             .name = spec,
                             .optimizer = spec,
                             .rate = rate_of(spec),
                             .way = way});
    }
  }
  for (const std::string_view name : models::optimizer_names()) {
    EXPECT_TRUE(optimizers.contains(name)) << name;
  }
}

}  // namespace
}  // namespace unlatch::exec
