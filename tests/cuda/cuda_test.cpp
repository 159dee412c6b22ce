// The CUDA backend on a real device; skipped, with the reason, where there is none.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "exec/cpu_backend.h"
#include "exec/data_feed.h"
#include "exec/device_profile.h"
#include "exec/dnn_heads.h"
#include "exec/evaluate.h"
#include "exec/executor.h"
#include "exec/stage_runner.h"
#include "exec/stream_backend.h"
#include "models/dataset.h"
#include "models/partition.h"
#include "schedules/error.h"
#include "schedules/registry.h"
#include "tests/support/small_text.h"
#include "tests/support/watched.h"

namespace unlatch::exec {
namespace {

/// Why there is no device; empty where there is one.
std::string why_not() {
  try {
    std::string why;
    if (!cuda_library().devices(&why).empty()) return "";
    return fmt::format("no CUDA device: {}", why);
  } catch (const Error& error) {
    return error.what();
  }
}

/// What a run leaves.
struct Left {
  std::vector<float> weights;
  std::vector<float> statistics;
  std::vector<double> losses;
  std::vector<double> heads;              ///< parameters that lie alike on every device
  std::vector<std::string> remarks = {};  ///< of a device
};

/// All parameters of local heads but a synthesiser's constants, whose order the CPU's layouts
/// change: it keeps a gradient of the others alone.
std::vector<double> parameters_of(const std::vector<LocalHead*>& heads) {
  std::vector<double> all;
  for (const LocalHead* head : heads) {
    if (head == nullptr) continue;
    const std::vector<double> mine = head->parameters();
    const std::size_t trained = head->bytes().gradient / sizeof(float);
    const std::size_t n = trained > 0 ? trained : mine.size();
    all.insert(all.end(), mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return all;
}

struct Case {
  std::string name;
  models::Model model;
  std::string schedule = "bp";
  int stages = 1;
  int micro_batches = 1;
  int steps = 4;
  std::string optimizer = "momentum:momentum=0.9,decay=0.001";
  int replicas = 1;
};

constexpr int batch_size = 16;

class Runs {
 public:
  explicit Runs(const Case& c)
      : graph_(ScheduleSpec::parse(c.schedule)
                   .make({.stages = c.stages,
                          .micro_batches = c.micro_batches,
                          .batches = c.steps,
                          .replicas = c.replicas})
                   .build()),
        model_(c.model),
        ranges_(models::uniform_partition(static_cast<int>(c.model.layers.size()), c.stages)),
        run_{.micro_batch_size = batch_size / graph_.shape().micro_batches,
             .optimizer = models::OptimizerSpec::parse(c.optimizer),
             .seed = 5},
        data_(c.model.input.is_sequence ? testing_support::small_text(c.model.input)
                                        : models::load_data("digits")),
        feed_(data_.train, model_.input, batch_size, graph_.shape().micro_batches, 3) {
    left_.losses.resize(static_cast<std::size_t>(graph_.shape().all_micro_batches()));
  }

  Left on_cpu() {
    std::vector<std::vector<std::unique_ptr<DnnStageModule>>> copies;
    std::vector<StageModule*> modules;
    for (int copy = 0; copy < graph_.shape().copies; ++copy) {
      copies.push_back(make_dnn_stages(model_, ranges_, run_));
      for (const auto& stage : copies.back()) modules.push_back(stage.get());
    }
    const auto heads = make_dnn_heads(graph_.learning().local_gradients, copies.front(), run_);
    std::vector<LocalHead*> lent_heads;
    for (const auto& head : heads) lent_heads.push_back(head.get());
    StageRunner runner(graph_, modules, feed_, rate(), observer(), lent_heads);
    CpuBackend backend(graph_, runner);
    run(graph_, backend);
    std::vector<Tensor> weights;
    for (const Stage k : up_to<Stage>(graph_.shape().stages)) weights.push_back(runner.weights(k));
    left_.weights = joined_weights(weights);
    left_.statistics = joined_statistics(copies.front());
    left_.heads = parameters_of(lent_heads);
    return left_;
  }

  /// After every task the pools hold what the stages keep, at most; what two entries of the account
  /// share is held once. At the end nothing is shared.
  void expect_pools_hold_what_is_kept() {
    const auto device = cuda_library().start(graph_, model_, ranges_, run_, {}, feed_);
    StageRunner runner(graph_, device->modules(), device->feed(), rate(), observer(),
                       device->heads());
    const auto ranks = up_to<Rank>(graph_.ranks());
    std::size_t outside = 0;  // running statistics, in the pools alone
    const auto held = [&] {
      std::size_t sum = 0;
      for (const Rank r : ranks) sum += device->memory_of(r).asked;
      return static_cast<std::int64_t>(sum - outside);
    };
    const auto kept = [&] {
      std::int64_t sum = 0;
      for (const Rank r : ranks) {
        const KeptMemory::Level level = runner.kept().of(r).now;
        sum += level.bytes() + level.queued_bytes();
      }
      return sum;
    };
    outside = device->statistics().size() * sizeof(float);
    ASSERT_EQ(held(), kept()) << "before the run";
    testing_support::Watched watched(runner, device->order(), [&](TaskId id) {
      ASSERT_LE(held(), kept()) << label(graph_.task(id));
    });
    StreamBackend backend(graph_, device->order(), watched);
    run(graph_, backend);
    EXPECT_EQ(held(), kept()) << "after the run";
    for (const Rank r : ranks) {
      const StreamMemory::Use use = device->memory_of(r);
      EXPECT_GE(use.peak, use.kept_peak);
      EXPECT_LE(use.peak, use.kept_peak + use.workspace);
    }
  }

  Left on_gpu(const DeviceSettings& settings = {}) {
    const auto device = cuda_library().start(graph_, model_, ranges_, run_, settings, feed_);
    StageRunner runner(graph_, device->modules(), device->feed(), rate(), observer(),
                       device->heads());
    StreamBackend backend(graph_, device->order(), runner);
    run(graph_, backend);
    left_.weights.clear();
    for (const Stage k : up_to<Stage>(graph_.shape().stages)) {
      const std::vector<float> part = device->to_host(runner.weights(k));
      left_.weights.insert(left_.weights.end(), part.begin(), part.end());
    }
    left_.statistics = device->statistics();
    left_.heads = parameters_of(device->heads());
    left_.remarks = device->remarks();
    return left_;
  }

 private:
  static std::function<double(int)> rate() {
    return [](int) { return 0.05; };
  }
  Observer observer() {
    return {.loss = [this](MicroBatch i, const Loss& loss) { left_.losses[i.value] = loss.loss; },
            .update = {}};
  }

  TaskGraph graph_;
  models::Model model_;
  std::vector<models::StageRange> ranges_;
  DnnRun run_;
  models::DataSplit data_;
  DataFeed feed_;
  Left left_;
};

template <class Values>
void expect_close(const Values& found, const Values& expected, double tolerance, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double most = 0, largest = 1e-3;
  for (std::size_t i = 0; i < found.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(found[i] - expected[i])));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  EXPECT_LE(most / largest, tolerance) << what;
}

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = why_not();
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

models::Layer layer(std::string name, decltype(models::Layer::kind) kind) {
  return {std::move(name), std::move(kind)};
}

/// 8x8 digits through some layers, then to 10 classes.
models::Model small(std::string name, std::vector<models::Layer> layers) {
  layers.push_back(layer("fc", models::Linear{.out_features = 10}));
  return {std::move(name), {1, 8, 8}, 10, std::move(layers)};
}

/// As in ResNet-50: 1x1, 3x3 with the stride, 1x1 to four times the channels.
models::Layer bottleneck() {
  const auto conv = [](int out, int kernel, int stride) {
    return layer("conv", models::Convolution{.out_channels = out,
                                             .kernel = kernel,
                                             .stride = stride,
                                             .padding = kernel / 2,
                                             .bias = false});
  };
  const models::Layer norm = layer("norm", models::BatchNorm{});
  const models::Layer relu = layer("relu", models::Relu{});
  return layer("block", models::Residual{{conv(3, 1, 1), norm, relu, conv(3, 3, 2), norm, relu,
                                          conv(12, 1, 1), norm},
                                         {conv(12, 1, 2), norm}});
}

/// Bytes through an embedding and some layers, then to the next byte.
models::Model on_text(std::string name, std::vector<models::Layer> layers) {
  layers.insert(layers.begin(),
                layer("embedding", models::Embedding{.vocabulary = 256, .width = 12}));
  layers.push_back(layer("head", models::Linear{.out_features = 256}));
  return {std::move(name), {7, 1, 1, true}, 256, std::move(layers)};
}

models::Model transformer() {
  return models::make_model("transformer:layers=2,width=12,heads=3,sequence=7", {1, 1, 1, true},
                            256);
}

std::vector<Case> layer_cases() {
  using models::Convolution;
  const models::Layer conv = layer("conv", Convolution{.out_channels = 5, .padding = 1});
  return {
      {"linear", small("linear", {})},
      {"relu", small("relu", {layer("a", models::Linear{.out_features = 33}),
                              layer("relu", models::Relu{})})},
      {"convolution", small("convolution", {conv})},
      {"strided",
       small(
           "strided",
           {layer("conv",
                  Convolution{
                      .out_channels = 4, .kernel = 3, .stride = 2, .padding = 1, .bias = false})})},
      {"groups",
       small(
           "groups",
           {layer("conv", Convolution{.out_channels = 6, .padding = 1}),
            layer("grouped", Convolution{.out_channels = 9, .padding = 1, .groups = 3}),
            layer("relu", models::Relu{}),
            layer("apart",
                  Convolution{
                      .out_channels = 9, .stride = 2, .padding = 1, .bias = false, .groups = 9})})},
      {"dropout", small("dropout", {conv, layer("drop", models::Dropout{0.4, 2})})},
      {"batch norm", small("norm", {conv, layer("norm", models::BatchNorm{})})},
      {"max pool", small("pool", {conv, layer("pool", models::MaxPool{})})},
      {"padded max pool",
       small("padded", {conv, layer("norm", models::BatchNorm{}), layer("relu", models::Relu{}),
                        layer("pool", models::MaxPool{.kernel = 3, .stride = 2, .padding = 1})})},
      {"average pool", small("average", {conv, layer("pool", models::GlobalAveragePool{})})},
      {"residual",
       small("residual",
             {conv, layer("block",
                          models::Residual{
                              {layer("in", Convolution{.out_channels = 5, .padding = 1}),
                               layer("norm", models::BatchNorm{}), layer("relu", models::Relu{})},
                              {}})})},
      {"shortcut",
       small("shortcut",
             {conv,
              layer("block",
                    models::Residual{
                        {layer("in", Convolution{.out_channels = 6, .stride = 2, .padding = 1})},
                        {layer("short",
                               Convolution{.out_channels = 6, .kernel = 1, .stride = 2})}})})},
      {"bottleneck", small("bottleneck", {conv, bottleneck(), layer("relu", models::Relu{})})},
      {"embedding", on_text("embedding", {})},
      {"layer norm", on_text("norm", {layer("norm", models::LayerNorm{})})},
      {"gelu", on_text("gelu", {layer("a", models::Linear{.out_features = 9}),
                                layer("gelu", models::Gelu{})})},
      {"attention", on_text("attention", {layer("qkv", models::Linear{.out_features = 36}),
                                          layer("heads", models::CausalSelfAttention{.heads = 3}),
                                          layer("a", models::Linear{.out_features = 5})})},
      {"transformer", transformer()},
  };
}

/// Sums come in another order than on the CPU, four steps of momentum on top.
constexpr double tolerance = 2e-4;

/// They keep 8 and 11 bits of a number, and four steps of it add up.
struct ShortFormat {
  Precision precision;
  double most;  ///< from the CPU's numbers
  double loss_scale;
};
constexpr ShortFormat short_formats[] = {
    {Precision::tf32, 2e-2, 1}, {Precision::bf16, 5e-2, 1}, {Precision::fp16, 2e-2, 1024}};

TEST_F(OnDevice, EveryLayerTrainsAsOnTheCpu) {
  for (const Case& c : layer_cases()) {
    SCOPED_TRACE(c.name);
    Runs runs(c);
    const Left expected = runs.on_cpu();
    const Left found = runs.on_gpu();
    expect_close(found.weights, expected.weights, tolerance, "weights");
    expect_close(found.statistics, expected.statistics, tolerance, "statistics");
    expect_close(found.losses, expected.losses, tolerance, "losses");
  }
}

TEST_F(OnDevice, EveryOptimizerStepsAsOnTheCpu) {
  // Directions near a sign would show how the gradients were rounded: a larger epsilon.
  std::vector<std::string> optimizers{"sum:momentum=0.8,s=1.5,decay=0.01", "lars:momentum=0",
                                      "rmsprop:momentum=0.5,centered=yes,epsilon=0.1"};
  for (const std::string name : {"sgd", "momentum", "nesterov", "sum"}) optimizers.push_back(name);
  for (const std::string_view name : models::optimizer_names()) {
    if (std::ranges::find(optimizers, name) != optimizers.end()) continue;
    optimizers.push_back(std::string(name) + ":epsilon=0.1");
  }
  for (const std::string& optimizer : optimizers) {
    SCOPED_TRACE(optimizer);
    Case c{"linear", small("linear", {})};
    c.optimizer = optimizer;
    Runs runs(c);
    const Left expected = runs.on_cpu();
    expect_close(runs.on_gpu().weights, expected.weights, tolerance, "weights");
  }
}

const std::vector<const char*> schedules = {"bp",
                                            "gpipe",
                                            "gpipe:recompute=always",
                                            "1f1b",
                                            "ddg",
                                            "ddg:weights=in_place",
                                            "fr",
                                            "fdg",
                                            "dsp",
                                            "zb-h1",
                                            "pipedream",
                                            "pipedream:weights=predicted",
                                            "dgl",
                                            "dgl:mode=async,buffer=2",
                                            "dni",
                                            "dni:conditional=yes,delta=2",
                                            "dfa"};

TEST_F(OnDevice, SchedulesTrainATransformerAsOnTheCpu) {
  for (const char* schedule : {"1f1b", "gpipe:recompute=always", "fr", "fdg", "dsp", "zb-h1", "dgl",
                               "dni:conditional=yes", "dfa"}) {
    SCOPED_TRACE(schedule);
    Runs runs({schedule, transformer(), schedule, 3, 4, 4});
    const Left expected = runs.on_cpu();
    const Left found = runs.on_gpu();
    expect_close(found.weights, expected.weights, tolerance, "weights");
    expect_close(found.losses, expected.losses, tolerance, "losses");
    expect_close(found.heads, expected.heads, tolerance, "heads");
  }
}

TEST_F(OnDevice, EveryScheduleTrainsAsOnTheCpu) {
  const models::Model lenet = models::make_model("lenet", {1, 8, 8}, 10);
  for (const char* schedule : schedules) {
    for (const int stages : {1, 2, 4}) {
      SCOPED_TRACE(fmt::format("{} on {} stages", schedule, stages));
      Runs runs({schedule, lenet, schedule, stages, 4, 8});
      const Left expected = runs.on_cpu();
      const Left found = runs.on_gpu();
      expect_close(found.weights, expected.weights, 1e-3, "weights");
      expect_close(found.heads, expected.heads, 1e-3, "local heads");
    }
  }
}

TEST_F(OnDevice, ReplicasTrainAsOnTheCpu) {
  const models::Model lenet = models::make_model("lenet", {1, 8, 8}, 10);
  for (const char* schedule :
       {"ssgd", "local-sgd:steps=2", "asgd:inside=1f1b", "asgd:compensation=adaptive,lambda=20",
        "ssp:bound=1", "ssd-sgd:delay=3,warmup=2", "ssgd:compression=topk,ratio=0.05,clip=0.5"}) {
    SCOPED_TRACE(schedule);
    Runs runs({.name = schedule,
               .model = lenet,
               .schedule = schedule,
               .stages = 2,
               .micro_batches = 2,
               .steps = 8,
               .optimizer = "sgd",
               .replicas = 2});
    const Left expected = runs.on_cpu();
    expect_close(runs.on_gpu().weights, expected.weights, 1e-3, "weights");
  }
}

/// Outputs that are vectors, small images, and images too large for a matrix that maps them.
std::vector<Case> head_cases() {
  const auto conv = [](int out) {
    return layer("conv", models::Convolution{.out_channels = out, .padding = 1});
  };
  const models::Layer relu = layer("relu", models::Relu{});
  return {{"vector", small("vector", {layer("a", models::Linear{.out_features = 33}), relu})},
          {"image", small("image", {conv(5), layer("pool", models::MaxPool{}), relu})},
          {"large image", small("large", {conv(20), relu})}};
}

TEST_F(OnDevice, LocalHeadsTrainAsOnTheCpuOnOutputsOfEveryKind) {
  for (Case c : head_cases()) {
    for (const char* schedule :
         {"dgl", "dni:synth_lr=0.8", "dni:conditional=yes,synth_lr=0.8", "dfa"}) {
      SCOPED_TRACE(fmt::format("{} by {}", c.name, schedule));
      c.schedule = schedule;
      c.stages = 2;
      c.steps = 8;
      Runs runs(c);
      const Left expected = runs.on_cpu();
      const Left found = runs.on_gpu();
      ASSERT_FALSE(expected.heads.empty());
      EXPECT_GT(*std::ranges::max_element(expected.heads), 0) << "nothing was learnt";
      expect_close(found.heads, expected.heads, tolerance, "local heads");
      expect_close(found.weights, expected.weights, tolerance, "weights");
      expect_close(found.losses, expected.losses, tolerance, "losses");
    }
  }
}

TEST_F(OnDevice, LocalHeadsTrainInEveryPrecision) {
  for (const auto& [precision, most, scale] : short_formats) {
    for (Case c : head_cases()) {
      for (const char* schedule : {"dgl", "dni:conditional=yes", "dfa"}) {
        SCOPED_TRACE(fmt::format("{} by {} in {}", c.name, schedule, name(precision)));
        c.schedule = schedule;
        c.stages = 2;
        Runs runs(c);
        const Left expected = runs.on_cpu();
        const Left found = runs.on_gpu({.precision = precision, .loss_scale = scale});
        expect_close(found.weights, expected.weights, most, "weights");
        expect_close(found.losses, expected.losses, most, "losses");
        EXPECT_THAT(found.remarks, testing::IsEmpty());
      }
    }
  }
}

/// Exactly, where the scale is a power of two and nothing rounds: so the classifier takes its own
/// part off again, and a synthesiser predicts what is scaled alike.
TEST_F(OnDevice, LocalHeadsTrainTheSameHoweverTheLossIsScaled) {
  for (Case c : head_cases()) {
    for (const char* schedule : {"dgl", "dni:conditional=yes", "dfa"}) {
      SCOPED_TRACE(fmt::format("{} by {}", c.name, schedule));
      c.schedule = schedule;
      c.stages = 2;
      Runs runs(c);
      const Left plain = runs.on_gpu();
      const Left scaled = runs.on_gpu({.loss_scale = 1024});
      EXPECT_EQ(scaled.weights, plain.weights);
      EXPECT_EQ(scaled.losses, plain.losses);
    }
  }
}

/// Whatever comes again is launched as a graph, and nothing else changes.
TEST_F(OnDevice, GraphsGiveTheBitsOfStreams) {
  const models::Model lenet = models::make_model("lenet", {1, 8, 8}, 10);
  for (const char* schedule : schedules) {
    for (const int stages : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} on {} stages", schedule, stages));
      Runs runs({schedule, lenet, schedule, stages, 4, 40});
      const Left streams = runs.on_gpu();
      const Left graphs = runs.on_gpu({.graphs = true});
      EXPECT_EQ(graphs.weights, streams.weights);
      EXPECT_EQ(graphs.losses, streams.losses);
      EXPECT_EQ(graphs.heads, streams.heads);
      ASSERT_FALSE(graphs.remarks.empty());
      if (std::string_view(schedule).starts_with("dgl:mode=async")) continue;  // turns at random
      EXPECT_THAT(graphs.remarks.front(), testing::Not(testing::HasSubstr(" 0 launched again")));
    }
  }
}

TEST_F(OnDevice, EveryLayerTrainsInEveryPrecision) {
  for (const auto& [precision, most, scale] : short_formats) {
    for (const Case& c : layer_cases()) {
      SCOPED_TRACE(fmt::format("{} in {}", c.name, name(precision)));
      Runs runs(c);
      const Left expected = runs.on_cpu();
      const Left found = runs.on_gpu({.precision = precision, .loss_scale = scale});
      expect_close(found.weights, expected.weights, most, "weights");
      expect_close(found.statistics, expected.statistics, most, "statistics");
      expect_close(found.losses, expected.losses, most, "losses");
      EXPECT_THAT(found.remarks, testing::IsEmpty());
    }
  }
}

/// With a scale that no half can hold, updates are left out and the weights stay numbers.
TEST_F(OnDevice, LeavesOutUpdatesThatAreNotFinite) {
  Runs runs({"linear", small("linear", {})});
  const Left left = runs.on_gpu({.precision = Precision::fp16, .loss_scale = 1 << 24});
  for (const float weight : left.weights) ASSERT_TRUE(std::isfinite(weight));
  ASSERT_EQ(left.remarks.size(), 1U);
  EXPECT_THAT(left.remarks.front(), testing::HasSubstr("4 updates left out"));
}

TEST_F(OnDevice, LeavesOutStepsOfLocalHeadsThatAreNotFinite) {
  for (const char* schedule : {"dgl", "dni"}) {
    SCOPED_TRACE(schedule);
    Case c = head_cases().front();
    c.schedule = schedule;
    c.stages = 2;
    Runs runs(c);
    const Left left = runs.on_gpu({.precision = Precision::fp16, .loss_scale = 1 << 24});
    for (const float weight : left.weights) ASSERT_TRUE(std::isfinite(weight));
    for (const double parameter : left.heads) ASSERT_TRUE(std::isfinite(parameter));
    EXPECT_THAT(
        left.remarks,
        testing::Contains(testing::StartsWith("local head of stage 0: 4 updates left out")));
  }
}

class OnTwoDevices : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    std::string why;
    if (cuda_library().devices(&why).size() < 2) GTEST_SKIP() << "there is one CUDA device";
  }
};

TEST_F(OnTwoDevices, CopiesAndNcclGiveTheBitsOfOneDevice) {
  const models::Model lenet = models::make_model("lenet", {1, 8, 8}, 10);
  for (const char* schedule : schedules) {
    SCOPED_TRACE(schedule);
    Runs runs({schedule, lenet, schedule, 2, 4, 20});
    const Left shared = runs.on_gpu();
    for (const std::vector<int>& devices : {std::vector{0, 1}, {1, 0}}) {
      for (const bool nccl : {false, true}) {
        for (const bool graphs : {false, true}) {
          const Left apart = runs.on_gpu({.devices = devices, .nccl = nccl, .graphs = graphs});
          EXPECT_EQ(apart.weights, shared.weights) << "nccl " << nccl << " graphs " << graphs;
          EXPECT_EQ(apart.heads, shared.heads) << "nccl " << nccl << " graphs " << graphs;
        }
      }
    }
  }
}

/// O42: deterministic algorithms, one handle a lane.
TEST_F(OnDevice, GivesTheSameBitsEveryTime) {
  const models::Model lenet = models::make_model("lenet", {1, 8, 8}, 10);
  for (const int stages : {1, 2}) {
    Runs runs({"lenet", lenet, "1f1b", stages, 4, 20});
    const Left first = runs.on_gpu();
    for (int again = 0; again < 4; ++again) EXPECT_EQ(runs.on_gpu().weights, first.weights);
  }
}

/// O39: memory so short that it goes from lane to lane.
TEST_F(OnDevice, ReusesMemoryBehindItsReaders) {
  const models::Model lenet = models::make_model("lenet", {1, 8, 8}, 10);
  Runs runs({"lenet", lenet, "gpipe", 2, 16, 6});
  const Left plenty = runs.on_gpu();
  constexpr std::size_t cublas = std::size_t{32} << 20;
  std::size_t pool = std::size_t{32} << 20;
  int runs_done = 0;
  for (; pool > 1024; pool = pool * 3 / 4) {
    try {
      EXPECT_EQ(runs.on_gpu({.memory_limit = cublas + pool}).weights, plenty.weights)
          << pool << " bytes";
      ++runs_done;
    } catch (const RunError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("out of device memory"));
      break;
    }
  }
  EXPECT_GT(runs_done, 3);
}

TEST_F(OnDevice, ProfilesEveryLayer) {
  const models::Dataset digits = models::load_data("digits").train;
  for (const char* name : {"mlp", "lenet", "resnet20"}) {
    SCOPED_TRACE(name);
    const models::Model model = models::make_model(name, digits.shape, digits.classes);
    const DeviceSettings where;
    const LayerProfile profile = profile_layers_on(cuda_library(), where, model, digits,
                                                   {.micro_batch_size = batch_size, .samples = 5});
    const auto shapes = model.shapes();
    std::int64_t sum = profile.input.mean_ns + profile.loss.mean_ns;
    for (std::size_t j = 0; j < profile.layers.size(); ++j) {
      const LayerCost& cost = profile.layers[j];
      EXPECT_GT(cost.forward.mean_ns, 0) << cost.name;
      EXPECT_GT(cost.backward.mean_ns, 0) << cost.name;
      EXPECT_EQ(cost.output_bytes,
                static_cast<std::size_t>(shapes[j + 1].elements()) * batch_size * sizeof(float));
      sum += cost.forward.mean_ns + cost.backward.mean_ns + cost.update.mean_ns;
    }
    EXPECT_GT(profile.step.mean_ns, sum / 2) << "a step is its tasks, and little else";
    EXPECT_LT(profile.step.mean_ns, 2 * sum);
  }
}

TEST_F(OnDevice, KeepsNothingBetweenTasksThatIsNotAccountedFor) {
  const models::Model resnet = models::make_model("resnet20:width=8", {1, 8, 8}, 10);
  for (const char* schedule : {"1f1b", "gpipe:recompute=always", "fdg", "dsp", "zb-h1"}) {
    SCOPED_TRACE(schedule);
    Runs({schedule, resnet, schedule, 2, 4, 6}).expect_pools_hold_what_is_kept();
  }
  const models::Model lenet = models::make_model("lenet", {1, 8, 8}, 10);
  for (const char* schedule : {"dgl", "dgl:mode=async,buffer=2", "dni:conditional=yes", "dfa"}) {
    SCOPED_TRACE(schedule);
    Runs({schedule, lenet, schedule, 3, 1, 6}).expect_pools_hold_what_is_kept();
  }
}

/// O40 (d): what a machine without a device says; there is nothing to skip here.
TEST(CudaLibrary, SaysWhyThereIsNoDevice) {
  const std::string why = why_not();
  if (why.empty()) GTEST_SKIP() << "there is a device";
  EXPECT_THAT(why, testing::AnyOf(testing::StartsWith("no CUDA device: "),
                                  testing::HasSubstr("built without CUDA"),
                                  testing::HasSubstr("UNLATCH_CUDA_PATH")));
}

}  // namespace
}  // namespace unlatch::exec
