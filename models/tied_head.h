// Tied head: a last layer that multiplies by the embedding's table of tokens.
//
// Where first and last layer lie on one stage they share the table. Where they do not, each of the
// two stages holds a copy, as in Megatron-LM (Narayanan et al., SC 2021): that of the first stage
// at the beginning of its flat weights, that of the last at the end.
#pragma once

#include <cstdint>
#include <span>

#include "models/model.h"

namespace unlatch::models {

bool has_tied_head(const Model& model);

/// The same layer with weights of its own.
Layer untied(Layer layer);
/// The same model with a head of its own.
Model untied(Model model);

/// Floats of the table that this stage and another hold a copy of each; 0 if there is no such table
/// in it, or none elsewhere.
std::int64_t tied_floats(const Model& model, const StageRange& range);

/// From the weights of all stages, one after the other, those of the model: without the copy that
/// the last stage may hold.
void drop_copied_table(const Model& model, std::vector<float>& weights);

/// Throws Error, naming the layer, unless only the last layer is tied, to an embedding in front
/// whose table has a row for each output and a column for each input of it. `shapes` as
/// Model::shapes().
void require_tied_head_fits(const Model& model, std::span<const SampleShape> shapes);

}  // namespace unlatch::models
