// VGG, ResNeXt, wide and pre-activation ResNets: published sizes, sizes counted by hand, shapes and
// names.
#include "models/network_family.h"

#include <set>

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Model network(std::string_view name) { return make_model(name, {3, 32, 32}, 10); }

constexpr std::int64_t linear(std::int64_t in) { return in * 10 + 10; }
constexpr std::int64_t norm(std::int64_t channels) { return 2 * channels; }
constexpr std::int64_t conv(std::int64_t in, std::int64_t out, int kernel) {
  return in * out * kernel * kernel;
}

struct Published {
  const char* name;
  double millions;
  double rounding;
};

/// ResNeXt: Xie et al. 2017, table 7. WRN: Zagoruyko and Komodakis 2016, tables 4 and 5.
/// Bottlenecks with pre-activation: He et al., ECCV 2016, table 4. VGG as CIFAR uses it: 20.0
/// and 14.7 millions.
TEST(NetworkFamily, HasThePublishedParameters) {
  for (const auto& [name, millions, rounding] : {Published{"resnext29", 34.4, 0.05},
                                                 {"resnext29:cardinality=16", 68.1, 0.1},
                                                 {"wrn-28-10", 36.5, 0.05},
                                                 {"wrn-40-4", 8.9, 0.06},
                                                 {"wrn-16-8", 11.0, 0.05},
                                                 {"wrn-40-1", 0.6, 0.05},
                                                 {"preresnet164", 1.7, 0.05},
                                                 {"preresnet1001", 10.2, 0.15},
                                                 {"vgg19", 20.0, 0.05},
                                                 {"vgg16", 14.7, 0.05}}) {
    EXPECT_NEAR(static_cast<double>(parameter_count(network(name))) / 1e6, millions, rounding)
        << name;
  }
}

TEST(Vgg, HasTheParametersOfItsConvolutions) {
  struct Case {
    const char* name;
    std::vector<std::int64_t> channels;
  };
  for (const auto& [name, channels] :
       {Case{"vgg11", {64, 128, 256, 256, 512, 512, 512, 512}},
        {"vgg13", {64, 64, 128, 128, 256, 256, 512, 512, 512, 512}},
        {"vgg16", {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512}},
        {"vgg19",
         {64, 64, 128, 128, 256, 256, 256, 256, 512, 512, 512, 512, 512, 512, 512, 512}}}) {
    std::int64_t normed = linear(512), plain = linear(512), in = 3;
    for (const std::int64_t out : channels) {
      normed += conv(in, out, 3) + norm(out);
      plain += conv(in, out, 3) + out;
      in = out;
    }
    EXPECT_EQ(parameter_count(network(name)), normed) << name;
    EXPECT_EQ(parameter_count(network(fmt::format("{}:norm=no", name))), plain) << name;
  }
}

TEST(ResNext, HasTheParametersOfItsBlocks) {
  for (const std::int64_t cardinality : {1, 8, 16}) {
    std::int64_t count = conv(3, 64, 3) + norm(64) + linear(1024);
    std::int64_t in = 64;
    for (const std::int64_t out : {256, 512, 1024}) {
      const std::int64_t inner = cardinality * 64 * out / 256;
      for (int n = 0; n < 3; ++n) {
        count += conv(in, inner, 1) + norm(inner) + conv(inner / cardinality, inner, 3) +
                 norm(inner) + conv(inner, out, 1) + norm(out);
        if (n == 0) count += conv(in, out, 1) + norm(out);
        in = out;
      }
    }
    EXPECT_EQ(parameter_count(network(fmt::format("resnext29:cardinality={}", cardinality))),
              count);
  }
}

/// A norm and a convolution of every 3x3, an own convolution where the shape changes.
TEST(WideResnet, HasTheParametersOfItsBlocks) {
  struct Case {
    int depth, factor;
  };
  for (const auto& [depth, factor] : {Case{28, 10}, {10, 1}, {16, 8}}) {
    std::int64_t count = conv(3, 16, 3), in = 16;
    for (const std::int64_t out : {16 * factor, 32 * factor, 64 * factor}) {
      for (int n = 0; n < (depth - 4) / 6; ++n) {
        count += norm(in) + conv(in, out, 3) + norm(out) + conv(out, out, 3);
        if (n == 0 && (out != 16 || in != 16)) count += conv(in, out, 1);
        in = out;
      }
    }
    count += norm(in) + linear(in);
    EXPECT_EQ(parameter_count(network(fmt::format("wrn-{}-{}", depth, factor))), count);
  }
  EXPECT_EQ(parameter_count(network("wrn-28-10")), 36'479'194);
}

TEST(PreactivationResnet, HasTheParametersOfItsBottlenecks) {
  for (const int depth : {11, 164}) {
    std::int64_t count = conv(3, 16, 3), in = 16;
    for (const std::int64_t inner : {16, 32, 64}) {
      for (int n = 0; n < (depth - 2) / 9; ++n) {
        count += norm(in) + conv(in, inner, 1) + norm(inner) + conv(inner, inner, 3) + norm(inner) +
                 conv(inner, 4 * inner, 1);
        if (n == 0) count += conv(in, 4 * inner, 1);
        in = 4 * inner;
      }
    }
    count += norm(in) + linear(in);
    EXPECT_EQ(parameter_count(network(fmt::format("preresnet{}", depth))), count);
  }
}

TEST(NetworkFamily, ShrinksTheImageWhereThePapersDo) {
  const auto last_image = [](std::string_view name) {
    const Model model = network(name);
    const std::vector<SampleShape> shapes = model.shapes();
    return shapes[shapes.size() - 3];  // before the average, or before the pool of a VGG
  };
  EXPECT_EQ(last_image("resnext29"), (SampleShape{1024, 8, 8}));
  EXPECT_EQ(last_image("wrn-28-10"), (SampleShape{640, 8, 8}));
  EXPECT_EQ(last_image("preresnet164"), (SampleShape{256, 8, 8}));
  EXPECT_EQ(last_image("vgg19"), (SampleShape{512, 2, 2}));
}

TEST(NetworkFamily, SharesTheFirstActivationWhereABlockChangesTheShape) {
  const Model model = network("wrn-10-2");
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1", "norm1", "relu1", "block1", "norm2", "relu2",
                                             "block2", "norm3", "relu3", "block3", "norm4", "relu4",
                                             "average", "linear"}));
  const auto& block = std::get<Residual>(model.layers[6].kind);
  EXPECT_EQ(std::get<Convolution>(block.body.front().kind).stride, 2);
  EXPECT_EQ(std::get<Convolution>(block.shortcut.front().kind).stride, 2);
  const Model narrow = network("wrn-10-1");
  const auto& same = std::get<Residual>(narrow.layers[1].kind);
  EXPECT_TRUE(std::holds_alternative<BatchNorm>(same.body.front().kind));
  EXPECT_TRUE(same.shortcut.empty());
}

TEST(NetworkFamily, NamesEveryParameterOnce) {
  for (const char* name : {"vgg11", "resnext11", "wrn-16-2", "preresnet20"}) {
    const Model model = network(name);
    const std::vector<SampleShape> shapes = model.shapes();
    std::set<std::string> names;
    for (std::size_t j = 0; j < model.layers.size(); ++j) {
      for (const Parameter& p : parameters(model.layers[j], shapes[j])) {
        EXPECT_TRUE(names.insert(p.name).second) << name << ": " << p.name;
      }
    }
  }
}

TEST(NetworkFamily, PutsDropoutWhereThePapersHaveItAndNumbersIt) {
  std::vector<int> numbers;
  for (const Layer& layer : network("wrn-16-1:dropout=0.3").layers) {
    const auto* block = std::get_if<Residual>(&layer.kind);
    if (block == nullptr) continue;
    for (std::size_t i = 0; i < block->body.size(); ++i) {
      const auto* dropout = std::get_if<Dropout>(&block->body[i].kind);
      if (dropout == nullptr) continue;
      EXPECT_EQ(dropout->probability, 0.3);
      EXPECT_EQ(i + 2, block->body.size()) << "in front of the second convolution";
      numbers.push_back(dropout->number);
    }
  }
  EXPECT_EQ(numbers, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  const Model vgg = network("vgg11:dropout=0.5");
  EXPECT_TRUE(std::holds_alternative<Dropout>(vgg.layers[vgg.layers.size() - 2].kind));
  const Model lenet = make_model("lenet:dropout=0.5", {1, 28, 28}, 10);
  EXPECT_EQ(std::get<Dropout>(lenet.layers[8].kind).number, 0);
  EXPECT_EQ(std::get<Dropout>(lenet.layers[11].kind).number, 1);
  EXPECT_EQ(network("vgg11:dropout=0").layers.size() + 1, vgg.layers.size());
}

TEST(NetworkFamily, AWrongNumberNamesTheNearestOnes) {
  struct Case {
    const char* name;
    const char* nearest;
  };
  for (const auto& [name, nearest] : {Case{"vgg12", "mean 'vgg11' or 'vgg13'?"},
                                      {"vgg99", "mean 'vgg19'?"},
                                      {"wrn-27-10", "mean 'wrn-22-10' or 'wrn-28-10'?"},
                                      {"wrn-28-0", "mean 'wrn-28-1'?"},
                                      {"resnext30", "mean 'resnext29' or 'resnext38'?"},
                                      {"preresnet163", "mean 'preresnet155' or 'preresnet164'?"}}) {
    EXPECT_THAT(message_of([&] { network(name); }), AllOf(HasSubstr(name), HasSubstr(nearest)));
  }
  EXPECT_THAT(message_of([] { network("wrn28-10"); }), HasSubstr("'wrn-28-10'"));
  EXPECT_THAT(message_of([] { network("resnext"); }), HasSubstr("'resnext29'"));
  EXPECT_THAT(message_of([] { network("wrn-28-10:droput=0.3"); }), HasSubstr("'dropout'"));
  EXPECT_THAT(message_of([] { network("vgg11:dropout=1"); }), HasSubstr("from 0 to 0.99"));
  EXPECT_THAT(message_of([] { network("resnext29:cardinality=0"); }), HasSubstr("from 1 to 256"));
  EXPECT_THAT(message_of([] {
                make_model("vgg11", {3, 64, 64}, 10);
              }),
              HasSubstr("vgg11:input=data takes any"));
}

TEST(NetworkFamily, TakesTheUsualInputOfCifar) {
  for (const char* name : {"vgg13", "resnext29", "wrn-28-10:dropout=0.3", "preresnet164"}) {
    EXPECT_EQ(usual_input(name), cifar_input) << name;
  }
  EXPECT_EQ(make_model("wrn-10-1:input=data", {1, 8, 8}, 10).input, (SampleShape{1, 8, 8}));
}

}  // namespace
}  // namespace unlatch::models
