// Stems, blocks and depths of the residual networks.
#include "models/resnet.h"

#include <algorithm>
#include <array>
#include <vector>

#include "models/network_family.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

/// He et al. 2016, table 1: blocks of each width.
struct ImagenetForm {
  int depth;
  std::array<int, 4> blocks;
  bool bottleneck;
};

constexpr ImagenetForm imagenet_forms[] = {{18, {2, 2, 2, 2}, false},
                                           {34, {3, 4, 6, 3}, false},
                                           {50, {3, 4, 6, 3}, true},
                                           {101, {3, 4, 23, 3}, true},
                                           {152, {3, 8, 36, 3}, true}};

/// Null for a network of CIFAR: 50 and 152 are 6n+2 as well, and ImageNet's all the same.
const ImagenetForm* imagenet_form(int depth) {
  const auto* found = std::ranges::find(imagenet_forms, depth, &ImagenetForm::depth);
  return found == std::end(imagenet_forms) ? nullptr : found;
}

constexpr int least_depth = 8;
constexpr int most_depth = 6002;

bool is_depth(int depth) {
  return imagenet_form(depth) != nullptr ||
         (depth >= least_depth && depth <= most_depth && depth % 6 == 2);
}

// For CIFAR, section 4.2.

/// A convolution and, if wanted, its batch norm, which makes a bias useless.
void append_convolution(std::vector<Layer>& layers, int number, Convolution convolution,
                        bool norm) {
  convolution.bias = !norm;
  layers.push_back({fmt::format("conv{}", number), convolution});
  if (norm) layers.push_back({fmt::format("norm{}", number), BatchNorm{}});
}

/// Two 3x3 convolutions; `stride` 2 also doubles the channels.
Residual cifar_block(int channels, int stride, bool norm) {
  Residual block;
  append_convolution(block.body, 1, {.out_channels = channels, .stride = stride, .padding = 1},
                     norm);
  block.body.push_back({"relu", Relu{}});
  append_convolution(block.body, 2, {.out_channels = channels, .padding = 1}, norm);
  if (stride != 1) {
    append_convolution(block.shortcut, 3, {.out_channels = channels, .kernel = 1, .stride = stride},
                       norm);
  }
  return block;
}

Model cifar_resnet(const Specification& given, int depth, const SampleShape& data, int classes) {
  given.allow_keys({"norm", "width", "input"});
  const bool norm = given.word("norm", {"yes", "no"}) == "yes";
  const int width = given.whole("width", 16, 1, 4096);
  Model model{.name = given.name(),
              .input = chosen_cifar_input(given, data),
              .classes = classes,
              .layers = {}};
  append_convolution(model.layers, 1, {.out_channels = width, .padding = 1}, norm);
  model.layers.push_back({"relu1", Relu{}});
  const int blocks_a_third = (depth - 2) / 6;
  int block = 0;
  for (const int third : {0, 1, 2}) {
    for (int n = 0; n < blocks_a_third; ++n) {
      const int stride = third > 0 && n == 0 ? 2 : 1;
      ++block;
      model.layers.push_back(
          {fmt::format("block{}", block), cifar_block(width << third, stride, norm)});
      model.layers.push_back({fmt::format("relu{}", block + 1), Relu{}});
    }
  }
  model.layers.push_back({"average", GlobalAveragePool{}});
  model.layers.push_back({"linear", Linear{.out_features = classes}});
  return model;
}

// For ImageNet, table 1, under the names that PyTorch gives its layers.

constexpr SampleShape imagenet{3, 224, 224};

void append_normed(std::vector<Layer>& layers, int number, int channels, int kernel, int stride) {
  layers.push_back({fmt::format("conv{}", number), Convolution{.out_channels = channels,
                                                               .kernel = kernel,
                                                               .stride = stride,
                                                               .padding = kernel / 2,
                                                               .bias = false}});
  layers.push_back({fmt::format("bn{}", number), BatchNorm{}});
}

/// The stride is that of the 3x3 convolution, as PyTorch has it ("v1.5"); in the paper it is that
/// of the 1x1 before it.
std::vector<Layer> bottleneck(int channels, int stride) {
  std::vector<Layer> body;
  append_normed(body, 1, channels, 1, 1);
  body.push_back({"relu1", Relu{}});
  append_normed(body, 2, channels, 3, stride);
  body.push_back({"relu2", Relu{}});
  append_normed(body, 3, 4 * channels, 1, 1);
  return body;
}

std::vector<Layer> basic(int channels, int stride) {
  std::vector<Layer> body;
  append_normed(body, 1, channels, 3, stride);
  body.push_back({"relu1", Relu{}});
  append_normed(body, 2, channels, 3, 1);
  return body;
}

std::vector<Layer> projection(int channels, int stride) {
  return {{"downsample.0",
           Convolution{.out_channels = channels, .kernel = 1, .stride = stride, .bias = false}},
          {"downsample.1", BatchNorm{}}};
}

Model imagenet_resnet(const Specification& given, const ImagenetForm& form, const SampleShape& data,
                      int classes) {
  given.allow_keys({"width", "input"});
  const int width = given.whole("width", 64, 1, 4096);
  Model model{.name = given.name(),
              .input = chosen_input(given, imagenet, "imagenet", data),
              .classes = classes,
              .layers = {}};
  append_normed(model.layers, 1, width, 7, 2);
  model.layers.push_back({"relu", Relu{}});
  model.layers.push_back({"maxpool", MaxPool{.kernel = 3, .stride = 2, .padding = 1}});
  int in_channels = width;
  for (int group = 0; group < 4; ++group) {
    const int channels = width << group;
    const int out_channels = form.bottleneck ? 4 * channels : channels;
    for (int n = 0; n < form.blocks[group]; ++n) {
      const int stride = group > 0 && n == 0 ? 2 : 1;
      Residual block{
          .body = form.bottleneck ? bottleneck(channels, stride) : basic(channels, stride),
          .shortcut = {}};
      if (stride != 1 || in_channels != out_channels) {
        block.shortcut = projection(out_channels, stride);
      }
      in_channels = out_channels;
      const std::string name = fmt::format("layer{}.{}", group + 1, n);
      model.layers.push_back({name, std::move(block)});
      model.layers.push_back({fmt::format("{}.relu", name), Relu{}});
    }
  }
  model.layers.push_back({"avgpool", GlobalAveragePool{}});
  model.layers.push_back({"fc", Linear{.out_features = classes}});
  return model;
}

}  // namespace

std::optional<int> resnet_depth(std::string_view name) {
  const std::optional<int> depth = number_behind("resnet", name);
  if (!depth) return std::nullopt;
  require(is_depth(*depth),
          "unknown model '{}'. Did you mean {}? ResNets have 18, 34, 50, 101 or 152 layers "
          "(ImageNet), or 6n+2 up to {} (CIFAR)",
          name,
          nearest_depths(*depth, least_depth, most_depth, is_depth,
                         [](int number) { return fmt::format("resnet{}", number); }),
          most_depth);
  return depth;
}

SampleShape resnet_input(int depth) {
  return imagenet_form(depth) == nullptr ? cifar_input : imagenet;
}

NetworkFamily resnet_family() {
  return {[](std::string_view name) { return resnet_depth(name).has_value(); },
          [](std::string_view name) { return resnet_input(*resnet_depth(name)); },
          [](const Specification& given, const SampleShape& data, int classes) {
            const int depth = *resnet_depth(given.name());
            const ImagenetForm* form = imagenet_form(depth);
            return form == nullptr ? cifar_resnet(given, depth, data, classes)
                                   : imagenet_resnet(given, *form, data, classes);
          }};
}

}  // namespace unlatch::models
