#include "models/layer_sizes.h"

#include "schedules/error.h"

namespace unlatch::models {
namespace {

/// Products of sizes that nobody has looked at yet do not overflow like that.
double numbers_of(const SampleShape& shape) {
  return static_cast<double>(shape.channels) * shape.height * shape.width;
}

double scores_of(const CausalSelfAttention& attention, const SampleShape& input) {
  return static_cast<double>(attention.heads) * input.rows() * input.rows();
}

double window_of(int channels, int kernel) {
  return static_cast<double>(channels) * kernel * kernel;
}

void require_numbers(const Layer& layer, std::string_view what, double numbers) {
  require(numbers <= static_cast<double>(most_numbers),
          "layer {}: its {} {:.0f} numbers; a tensor has at most {}", layer.name, what, numbers,
          most_numbers);
}

void require_shape(const Layer& layer, std::string_view what, const SampleShape& shape) {
  require_numbers(layer,
                  fmt::format("{} {}x{}x{} has", what, shape.channels, shape.height, shape.width),
                  numbers_of(shape));
}

void require_steps(const Layer& layer, const SampleShape& output, double window) {
  constexpr double most = 1e15;  // of a sample: a day on a fast core
  require(
      numbers_of(output) * window <= most,
      "layer {}: {}x{}x{} outputs of windows of {:.0f} numbers are more than {:.0e} steps for a "
      "sample; use a smaller kernel, a larger stride or a smaller input",
      layer.name, output.channels, output.height, output.width, window, most);
}

void note(LargestTensor& largest, const Layer& layer, std::int64_t numbers) {
  if (numbers > largest.numbers) largest = {.layer = layer.name, .numbers = numbers};
}

void note_all(LargestTensor& largest, const std::vector<Layer>& layers, SampleShape shape) {
  for (const Layer& layer : layers) {
    note(largest, layer, shape.elements());
    if (const auto* residual = std::get_if<Residual>(&layer.kind)) {
      note_all(largest, residual->body, shape);
      note_all(largest, residual->shortcut, shape);
    }
    if (const auto* attention = std::get_if<CausalSelfAttention>(&layer.kind)) {
      note(largest, layer, static_cast<std::int64_t>(scores_of(*attention, shape)));
    }
    shape = output_shape(layer, shape);
    note(largest, layer, shape.elements());
  }
}

std::optional<std::string> norm_of_one_place(const std::vector<Layer>& layers, SampleShape shape) {
  for (const Layer& layer : layers) {
    if (std::holds_alternative<BatchNorm>(layer.kind) && shape.height == 1 && shape.width == 1) {
      return layer.name;
    }
    if (const auto* residual = std::get_if<Residual>(&layer.kind)) {
      for (const auto* branch : {&residual->body, &residual->shortcut}) {
        if (const auto inner = norm_of_one_place(*branch, shape)) {
          return fmt::format("{}.{}", layer.name, *inner);
        }
      }
    }
    shape = output_shape(layer, shape);
  }
  return std::nullopt;
}

}  // namespace

void require_countable_input(const Layer& layer, const SampleShape& input) {
  require_shape(layer, "input", input);
}

void require_countable(const Layer& layer, const SampleShape& input, const SampleShape& output) {
  require_shape(layer, "output", output);
  if (const auto* c = std::get_if<Convolution>(&layer.kind)) {
    const double window = window_of(input.channels / c->groups, c->kernel);
    require_numbers(layer, "weights are", window * c->out_channels);
    require_steps(layer, output, window);
  }
  if (const auto* pool = std::get_if<MaxPool>(&layer.kind)) {
    require_steps(layer, output, window_of(1, pool->kernel));
  }
  if (const auto* attention = std::get_if<CausalSelfAttention>(&layer.kind)) {
    require_numbers(layer, fmt::format("softmax of all pairs of {} tokens has", input.rows()),
                    scores_of(*attention, input));
  }
}

LargestTensor largest_tensor(const Model& model) {
  LargestTensor largest;
  note_all(largest, model.layers, model.input);
  return largest;
}

std::optional<std::string> one_valued_norm(const Model& model, int samples) {
  return samples > 1 ? std::nullopt : norm_of_one_place(model.layers, model.input);
}

}  // namespace unlatch::models
