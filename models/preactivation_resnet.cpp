// Residual networks that normalise before they convolve, in their CIFAR forms: the bottlenecks of
// He et al. (ECCV 2016), "preresnet164", and the wide basic blocks of Zagoruyko and Komodakis (BMVC
// 2016), "wrn-28-10". Where a block changes the shape, its convolution on the shortcut takes the
// first norm and ReLU as well; those two are then layers of their own in front of the block.
#include <algorithm>

#include "models/network_family.h"
#include "schedules/error.h"

namespace unlatch::models {
namespace {

/// What tells one network from another.
struct Form {
  int blocks_a_group;
  int stem;            ///< channels
  int channels;        ///< out of a block of the first group; twice as many in each further one
  bool bottleneck;     ///< 1x1, 3x3, 1x1 convolutions with a quarter of the channels; else two 3x3
  double dropout = 0;  ///< between the two
};

void append_activated(std::vector<Layer>& layers, int number) {
  layers.push_back({fmt::format("norm{}", number), BatchNorm{}});
  layers.push_back({fmt::format("relu{}", number), Relu{}});
}

void append_convolution(std::vector<Layer>& layers, int number, int out, int kernel, int stride) {
  layers.push_back({fmt::format("conv{}", number), Convolution{.out_channels = out,
                                                               .kernel = kernel,
                                                               .stride = stride,
                                                               .padding = kernel / 2,
                                                               .bias = false}});
}

/// From the first convolution on.
std::vector<Layer> convolutions(const Form& form, int out, int stride) {
  std::vector<Layer> body;
  append_convolution(body, 1, form.bottleneck ? out / 4 : out, form.bottleneck ? 1 : 3,
                     form.bottleneck ? 1 : stride);
  append_activated(body, 2);
  if (form.dropout > 0) body.push_back({"dropout", Dropout{form.dropout}});
  append_convolution(body, 2, form.bottleneck ? out / 4 : out, 3, form.bottleneck ? stride : 1);
  if (!form.bottleneck) return body;
  append_activated(body, 3);
  append_convolution(body, 3, out, 1, 1);
  return body;
}

void append_block(std::vector<Layer>& layers, int number, const Form& form, int in, int out,
                  int stride) {
  Residual block;
  const bool changes_shape = in != out || stride != 1;
  append_activated(changes_shape ? layers : block.body, changes_shape ? number : 1);
  for (Layer& layer : convolutions(form, out, stride)) block.body.push_back(std::move(layer));
  if (changes_shape) append_convolution(block.shortcut, 4, out, 1, stride);
  layers.push_back({fmt::format("block{}", number), std::move(block)});
}

Model network(const Specification& given, const Form& form, const SampleShape& data, int classes) {
  Model model{.name = given.name(),
              .input = chosen_cifar_input(given, data),
              .classes = classes,
              .layers = {}};
  append_convolution(model.layers, 1, form.stem, 3, 1);
  int channels = form.stem;
  int number = 0;
  for (const int group : {0, 1, 2}) {
    for (int n = 0; n < form.blocks_a_group; ++n) {
      const int out = form.channels << group;
      append_block(model.layers, ++number, form, channels, out, group > 0 && n == 0 ? 2 : 1);
      channels = out;
    }
  }
  append_activated(model.layers, number + 1);
  model.layers.push_back({"average", GlobalAveragePool{}});
  model.layers.push_back({"linear", Linear{.out_features = classes}});
  return model;
}

constexpr int most_depth = 6002;

/// a n + b, from n = 1 on.
struct Depths {
  int a, b;
  bool have(int depth) const { return depth >= a + b && depth <= most_depth && depth % a == b % a; }
  std::string nearest(int depth, const std::function<std::string(int)>& name) const {
    return nearest_depths(
        depth, a + b, most_depth, [this](int d) { return have(d); }, name);
  }
};
constexpr Depths bottleneck_depths{9, 2};
constexpr Depths wide_depths{6, 4};

bool is_preactivation_resnet(std::string_view name) {
  const std::optional<int> depth = number_behind("preresnet", name);
  if (!depth) return false;
  require(bottleneck_depths.have(*depth),
          "unknown model '{}'. Did you mean {}? A pre-activation ResNet of bottlenecks has 9n+2 "
          "layers up to {}",
          name,
          bottleneck_depths.nearest(*depth, [](int d) { return fmt::format("preresnet{}", d); }),
          most_depth);
  return true;
}

Model preactivation_resnet(const Specification& given, const SampleShape& data, int classes) {
  given.allow_keys({"width", "input"});
  const int width = given.whole("width", 16, 1, 4096);
  const int depth = *number_behind("preresnet", given.name());
  return network(given, {(depth - 2) / 9, width, 4 * width, true}, data, classes);
}

/// "wrn-d-k".
struct WideName {
  int depth, factor;
};
std::optional<WideName> wide_name(std::string_view name) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || dash < 4) return std::nullopt;
  const std::optional<int> depth = number_behind("wrn-", name.substr(0, dash));
  const std::optional<int> factor = number_behind("-", name.substr(dash));
  return depth && factor ? std::optional(WideName{*depth, *factor}) : std::nullopt;
}

bool is_wide_resnet(std::string_view name) {
  const std::optional<WideName> wide = wide_name(name);
  if (!wide) return false;
  constexpr int most_factor = 64;
  const int factor = std::clamp(wide->factor, 1, most_factor);
  require(wide_depths.have(wide->depth) && factor == wide->factor,
          "unknown model '{}'. Did you mean {}? A wide ResNet wrn-d-k has d = 6n+4 layers up to {} "
          "and is k = 1..{} times as wide",
          name,
          wide_depths.nearest(wide->depth,
                              [factor](int d) { return fmt::format("wrn-{}-{}", d, factor); }),
          most_depth, most_factor);
  return true;
}

Model wide_resnet(const Specification& given, const SampleShape& data, int classes) {
  given.allow_keys({"dropout", "width", "input"});
  const auto [depth, factor] = *wide_name(given.name());
  const int width = given.whole("width", 16, 1, 4096);
  return network(
      given, {(depth - 4) / 6, width, factor * width, false, given.number("dropout", 0, 0, 0.99)},
      data, classes);
}

}  // namespace

NetworkFamily preactivation_resnet_family() {
  return {is_preactivation_resnet, usual_cifar_input, preactivation_resnet};
}

NetworkFamily wide_resnet_family() { return {is_wide_resnet, usual_cifar_input, wide_resnet}; }

}  // namespace unlatch::models
