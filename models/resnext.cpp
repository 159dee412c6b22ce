// The residual networks with grouped convolutions of Xie et al. (CVPR 2017), in their CIFAR form
// (section 5.3): three groups of bottlenecks whose 3x3 convolution is in `cardinality` groups.
#include "models/network_family.h"
#include "schedules/error.h"

namespace unlatch::models {
namespace {

constexpr int stem = 64;
constexpr int least_depth = 11;
constexpr int most_depth = 1001;

bool is_depth(int depth) { return depth >= least_depth && depth <= most_depth && depth % 9 == 2; }

bool has(std::string_view name) {
  const std::optional<int> depth = number_behind("resnext", name);
  if (!depth) return false;
  require(is_depth(*depth), "unknown model '{}'. Did you mean {}? A ResNeXt has 9n+2 layers", name,
          nearest_depths(*depth, least_depth, most_depth, is_depth,
                         [](int number) { return fmt::format("resnext{}", number); }));
  return true;
}

void append_normed(std::vector<Layer>& layers, int number, Convolution convolution) {
  convolution.bias = false;
  layers.push_back({fmt::format("conv{}", number), convolution});
  layers.push_back({fmt::format("norm{}", number), BatchNorm{}});
}

/// `width` channels in each of the groups.
Residual block(int out, int cardinality, int width, int stride, bool projects) {
  Residual block;
  const int inner = cardinality * width;
  append_normed(block.body, 1, {.out_channels = inner, .kernel = 1});
  block.body.push_back({"relu1", Relu{}});
  append_normed(block.body, 2,
                {.out_channels = inner, .stride = stride, .padding = 1, .groups = cardinality});
  block.body.push_back({"relu2", Relu{}});
  append_normed(block.body, 3, {.out_channels = out, .kernel = 1});
  if (projects)
    append_normed(block.shortcut, 4, {.out_channels = out, .kernel = 1, .stride = stride});
  return block;
}

Model make(const Specification& given, const SampleShape& data, int classes) {
  given.allow_keys({"cardinality", "width", "input"});
  const int cardinality = given.whole("cardinality", 8, 1, 256);
  const int width = given.whole("width", 64, 1, 1024);
  Model model{.name = given.name(),
              .input = chosen_cifar_input(given, data),
              .classes = classes,
              .layers = {}};
  append_normed(model.layers, 1, {.out_channels = stem, .padding = 1});
  model.layers.push_back({"relu1", Relu{}});
  const int blocks_a_group = (*number_behind("resnext", given.name()) - 2) / 9;
  int number = 0;
  for (const int group : {0, 1, 2}) {
    for (int n = 0; n < blocks_a_group; ++n) {
      ++number;
      model.layers.push_back(
          {fmt::format("block{}", number), block((4 * stem) << group, cardinality, width << group,
                                                 group > 0 && n == 0 ? 2 : 1, n == 0)});
      model.layers.push_back({fmt::format("relu{}", number + 1), Relu{}});
    }
  }
  model.layers.push_back({"average", GlobalAveragePool{}});
  model.layers.push_back({"linear", Linear{.out_features = classes}});
  return model;
}

}  // namespace

NetworkFamily resnext_family() { return {has, usual_cifar_input, make}; }

}  // namespace unlatch::models
