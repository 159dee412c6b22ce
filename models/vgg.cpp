// The networks of Simonyan and Zisserman (ICLR 2015, table 1) as they are used on CIFAR: their 3x3
// convolutions and five poolings, and one linear layer for the three that ImageNet has.
#include <array>

#include "models/network_family.h"
#include "schedules/error.h"

namespace unlatch::models {
namespace {

/// Columns A, B, D and E of the table: convolutions before each pooling.
struct Form {
  int depth;
  std::array<int, 5> convolutions;
};
constexpr Form forms[] = {
    {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};

const Form* form_of(int depth) {
  for (const Form& form : forms) {
    if (form.depth == depth) return &form;
  }
  return nullptr;
}

bool has(std::string_view name) {
  const std::optional<int> depth = number_behind("vgg", name);
  if (!depth) return false;
  require(form_of(*depth) != nullptr, "unknown model '{}'. Did you mean {}?", name,
          nearest_depths(*depth, forms[0].depth, 19, form_of,
                         [](int number) { return fmt::format("vgg{}", number); }));
  return true;
}

Model make(const Specification& given, const SampleShape& data, int classes) {
  given.allow_keys({"norm", "width", "dropout", "input"});
  const bool norm = given.word("norm", {"yes", "no"}) == "yes";
  const int width = given.whole("width", 64, 1, 4096);
  const double dropout = given.number("dropout", 0, 0, 0.99);
  Model model{.name = given.name(),
              .input = chosen_cifar_input(given, data),
              .classes = classes,
              .layers = {}};
  const auto add = [&model](const char* name, int number, auto kind) {
    model.layers.push_back({fmt::format("{}{}", name, number), kind});
  };
  constexpr int most_doublings = 3;
  int convolution = 0;
  for (int group = 0; group < 5; ++group) {
    const int channels = width << std::min(group, most_doublings);
    const Form& form = *form_of(*number_behind("vgg", given.name()));
    for (int n = 0; n < form.convolutions[static_cast<std::size_t>(group)]; ++n) {
      ++convolution;
      add("conv", convolution, Convolution{.out_channels = channels, .padding = 1, .bias = !norm});
      if (norm) add("norm", convolution, BatchNorm{});
      add("relu", convolution, Relu{});
    }
    add("pool", group + 1, MaxPool{});
  }
  if (dropout > 0) model.layers.push_back({"dropout", Dropout{dropout}});
  model.layers.push_back({"linear", Linear{.out_features = classes}});
  return model;
}

}  // namespace

NetworkFamily vgg_family() { return {has, usual_cifar_input, make}; }

}  // namespace unlatch::models
