// ResNets by depth: sizes that are published, shapes, names, and the depths that there are.
#include "models/resnet.h"

#include <set>

#include "models/model.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;
using testing::Not;

double forward_gigaflops(const Model& model) {
  const std::vector<SampleShape> shapes = model.shapes();
  double flops = 0;
  for (std::size_t j = 0; j < model.layers.size(); ++j) {
    flops += static_cast<double>(forward_flops(model.layers[j], shapes[j]));
  }
  return flops / 1e9;
}

TEST(ImagenetResnet, HasTheParametersAndOperationsOfPytorchs) {
  struct Published {
    const char* name;
    std::int64_t parameters;
    double gigaflops;  ///< twice the multiply-adds
  };
  for (const auto& [name, parameters, gigaflops] : {Published{"resnet18", 11'689'512, 3.6},
                                                    {"resnet34", 21'797'672, 7.3},
                                                    {"resnet50", 25'557'032, 8.2},
                                                    {"resnet101", 44'549'160, 15.6},
                                                    {"resnet152", 60'192'808, 23.0}}) {
    SCOPED_TRACE(name);
    const Model model = make_model(name, {3, 224, 224}, 1000);
    EXPECT_EQ(model.name, name);
    EXPECT_EQ(parameter_count(model), parameters);
    EXPECT_NEAR(forward_gigaflops(model) / gigaflops, 1, 0.03);
  }
}

TEST(ImagenetResnet, ShrinksTheImageAtTheStemThePoolAndThreeBlocks) {
  const Model model = make_model("resnet50", {3, 224, 224}, 1000);
  const std::vector<SampleShape> shapes = model.shapes();
  EXPECT_EQ(shapes[1], (SampleShape{64, 112, 112}));
  EXPECT_EQ(shapes[4], (SampleShape{64, 56, 56})) << "behind the pool";
  std::vector<SampleShape> of_groups;
  for (const std::size_t blocks : {3, 7, 13, 16}) of_groups.push_back(shapes[4 + 2 * blocks]);
  EXPECT_EQ(of_groups,
            (std::vector<SampleShape>{{256, 56, 56}, {512, 28, 28}, {1024, 14, 14}, {2048, 7, 7}}));
  EXPECT_EQ(shapes[shapes.size() - 2], (SampleShape{2048, 1, 1}));
}

TEST(ImagenetResnet, StridesInTheLargeConvolutionOfABottleneck) {
  const Model model = make_model("resnet50", {3, 224, 224}, 10);
  const Layer& first = model.layers[4 + 2 * 3];
  ASSERT_EQ(first.name, "layer2.0");
  const auto& body = std::get<Residual>(first.kind).body;
  EXPECT_EQ(std::get<Convolution>(body[0].kind).stride, 1);
  EXPECT_EQ(std::get<Convolution>(body[3].kind).stride, 2);
  EXPECT_EQ(std::get<Convolution>(body[3].kind).kernel, 3);
}

/// Every parameter by the name of PyTorch's module, but for gamma and beta.
TEST(ImagenetResnet, BearsTheNamesThatPytorchGives) {
  const auto names_of = [](std::string_view name) {
    const Model model = make_model(name, {3, 32, 32}, 10);
    const std::vector<SampleShape> shapes = model.shapes();
    std::set<std::string> names;
    for (std::size_t j = 0; j < model.layers.size(); ++j) {
      for (const Parameter& p : parameters(model.layers[j], shapes[j])) {
        EXPECT_TRUE(names.insert(p.name).second) << p.name;
      }
    }
    return names;
  };
  const std::set<std::string> basic = names_of("resnet18");
  EXPECT_EQ(basic.size(), 62u);
  for (const char* name :
       {"conv1.weight", "bn1.gamma", "layer1.0.conv1.weight", "layer1.1.bn2.beta",
        "layer2.0.downsample.0.weight", "layer4.0.downsample.1.gamma", "fc.weight", "fc.bias"}) {
    EXPECT_TRUE(basic.contains(name)) << name;
  }
  EXPECT_FALSE(basic.contains("layer1.0.downsample.0.weight")) << "nothing changes there";
  const std::set<std::string> deep = names_of("resnet152");
  EXPECT_EQ(deep.size(), 467u);
  for (const char* name :
       {"layer1.0.downsample.0.weight", "layer3.35.conv3.weight", "layer4.2.bn3.gamma"}) {
    EXPECT_TRUE(deep.contains(name)) << name;
  }
}

TEST(ImagenetResnet, KeepsItsShapeOrTakesThatOfTheData) {
  EXPECT_EQ(make_model("resnet18", {1, 28, 28}, 10).input, (SampleShape{3, 224, 224}));
  EXPECT_EQ(make_model("resnet18:input=data", {1, 8, 8}, 10).input, (SampleShape{1, 8, 8}));
  EXPECT_THAT(message_of([] {
                make_model("resnet18", {3, 256, 224}, 10);
              }),
              AllOf(HasSubstr("224x224"), HasSubstr("3x256x224"),
                    HasSubstr("resnet18:input=data takes any")));
  EXPECT_THAT(message_of([] {
                make_model("resnet18:input=cifar", {3, 32, 32}, 10);
              }),
              HasSubstr("imagenet, data"));
  EXPECT_THAT(message_of([] {
                make_model("resnet18:norm=no", {3, 32, 32}, 10);
              }),
              HasSubstr("'norm'"));
}

TEST(ImagenetResnet, ScalesWithItsWidth) {
  const Model model = make_model("resnet50:width=8,input=data", {3, 64, 64}, 10);
  const std::vector<SampleShape> shapes = model.shapes();
  EXPECT_EQ(shapes[1], (SampleShape{8, 32, 32}));
  EXPECT_EQ(shapes[shapes.size() - 2], (SampleShape{256, 1, 1}));
}

/// Section 4.2 and table 6: 0.27, 0.46, 0.66, 0.85, 1.7 and 19.4 million, without the two 1x1
/// convolutions on shortcuts that are here.
TEST(CifarResnet, HasTheParametersOfThePaperAtEveryDepth) {
  struct Published {
    int depth;
    double millions;
  };
  constexpr std::int64_t shortcuts = 16 * 32 + 32 * 64 + 2 * (32 + 64);
  for (const auto& [depth, millions] :
       {Published{20, 0.27}, {32, 0.46}, {44, 0.66}, {56, 0.85}, {110, 1.7}, {1202, 19.4}}) {
    SCOPED_TRACE(depth);
    const Model model = make_model(fmt::format("resnet{}", depth), {3, 32, 32}, 10);
    EXPECT_EQ(model.layers.size(), static_cast<std::size_t>(depth - 2) + 5u);
    const double found = static_cast<double>(parameter_count(model) - shortcuts) / 1e6;
    EXPECT_NEAR(found, millions, millions < 1 ? 0.006 : 0.05);
    EXPECT_EQ(model.shapes()[model.layers.size() - 2], (SampleShape{64, 8, 8}));
  }
}

TEST(CifarResnet, ShrinksTheImageAtTheFirstBlockOfTheSecondAndThirdThird) {
  const Model model = make_model("resnet32", {3, 32, 32}, 10);
  const std::vector<SampleShape> shapes = model.shapes();
  for (std::size_t block = 1; block <= 15; ++block) {
    const int third = static_cast<int>(block - 1) / 5;
    EXPECT_EQ(shapes[3 + 2 * block], (SampleShape{16 << third, 32 >> third, 32 >> third})) << block;
  }
}

TEST(Resnet, DepthsAreThoseOfThePaper) {
  for (const int depth : {8, 14, 18, 20, 34, 50, 101, 110, 152, 158, 164, 1202, 6002}) {
    EXPECT_EQ(resnet_depth(fmt::format("resnet{}", depth)), depth);
  }
  for (const char* name : {"resnet", "resnet020", "resnet-8", "resnet20x", "resnet99999999999",
                           "resnext29", "lenet", "Resnet20"}) {
    EXPECT_EQ(resnet_depth(name), std::nullopt) << name;
  }
  EXPECT_EQ(resnet_input(50), (SampleShape{3, 224, 224}));
  EXPECT_EQ(resnet_input(56), (SampleShape{3, 32, 32}));
  EXPECT_EQ(usual_input("resnet152:width=8"), (SampleShape{3, 224, 224}));
}

TEST(Resnet, AWrongDepthNamesTheNearestOnes) {
  struct Case {
    const char* name;
    const char* nearest;
  };
  for (const auto& [name, nearest] : {Case{"resnet21", "mean 'resnet20' or 'resnet26'?"},
                                      {"resnet19", "mean 'resnet18' or 'resnet20'?"},
                                      {"resnet100", "mean 'resnet98' or 'resnet101'?"},
                                      {"resnet0", "mean 'resnet8'?"},
                                      {"resnet2000000000", "mean 'resnet6002'?"}}) {
    const std::string message = message_of([&] { make_model(name, {3, 32, 32}, 10); });
    EXPECT_THAT(message, AllOf(HasSubstr(name), HasSubstr(nearest), HasSubstr("6n+2")));
    EXPECT_THAT(message, Not(HasSubstr("\n")));
  }
}

}  // namespace
}  // namespace unlatch::models
