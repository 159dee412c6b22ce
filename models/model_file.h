// Models as JSON: layers with their numbers, read with the place of every fault, and written.
#pragma once

#include <string>
#include <string_view>

#include "models/model.h"

namespace unlatch::models {

/// Whether it names a JSON file that is not the shape of a transformer (transformer.h), and so
/// should list layers.
bool names_model_file(std::string_view specification);

/// {"name", "input": [channels, height, width], "layers": [..]}, or of text "tokens": N for the
/// input; a layer is an object of "name", "kind" and, with their defaults,
///   convolution          channels, kernel 3, stride 1, padding 0, bias true, groups 1
///   batch_norm           momentum 0.1, epsilon 1e-5
///   relu
///   max_pool             kernel 2, stride 2, padding 0
///   global_average_pool
///   linear               features, bias true, tied false: whether its weights are the table of
///                        tokens of the embedding that the model begins with; bias then false
///   dropout              probability
///   residual             body and shortcut [], lists of layers
///   embedding            vocabulary, width
///   layer_norm           epsilon 1e-5
///   gelu
///   causal_self_attention  heads
/// The last layer gives the logits, a number a class (of text for each token). `text` is the whole
/// file, `place` its name for messages. Throws Error with the place of what is wrong.
Model parse_model(const std::string& text, const std::string& place);
/// Throws Error like parse_model(), and for a file that cannot be read.
Model read_model(const std::string& path);

/// What parse_model() reads as the same model, a layer a line.
std::string model_json(const Model& model);

/// Numbers the dropouts of a model from its input on, bodies before shortcuts.
void number_dropouts(Model& model);

}  // namespace unlatch::models
