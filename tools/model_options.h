// Model options: --model, --data and --partition, shared by partition, profile, train and eval.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/dataset.h"
#include "models/model.h"
#include "models/partition.h"
#include "tools/arguments.h"

namespace unlatch::tools {

/// The model of --model for the input and classes of --data, or for the model's usual ones.
models::Model asked_model(const Arguments& arguments);
/// The same for data that are loaded already. Throws Error when they do not fit.
models::Model asked_model_for(const Arguments& arguments, const models::Dataset& data);

/// Throws Error that begins with `place` unless it is auto, uniform or n1/n2/..
void require_partition_name(const std::string& how, std::string_view place);
/// A partition by its name: auto, uniform or n1/n2/.. over layers of these costs.
std::vector<models::StageRange> split_by(const std::string& how,
                                         std::span<const double> layer_costs, int stages,
                                         std::string_view place = "--partition");
/// --partition auto (the default), uniform or n1/n2/.. over layers of these costs.
std::vector<models::StageRange> asked_partition(const Arguments& arguments,
                                                std::span<const double> layer_costs, int stages);
/// The same for stages some of which also pay for their recompute.
std::vector<models::StageRange> asked_partition(const Arguments& arguments,
                                                std::span<const double> layer_costs,
                                                std::span<const double> recompute_costs,
                                                const std::vector<bool>& pays_recompute);

/// Floating-point operations of one sample, forward and backward, a layer.
std::vector<double> flops_of_layers(const models::Model& model);
/// Forward alone.
std::vector<double> forward_flops_of_layers(const models::Model& model);

}  // namespace unlatch::tools
