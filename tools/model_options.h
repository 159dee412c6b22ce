// Model options: --model, --data and --partition, shared by partition, profile, train and eval.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/dataset.h"
#include "models/layer_facts.h"
#include "models/model.h"
#include "models/partition.h"
#include "tools/arguments.h"

namespace unlatch::tools {

/// The model of --model for the input and classes of --data, or for the model's usual ones.
models::Model asked_model(const Arguments& arguments);
/// The same for data that are loaded already; text becomes windows of the model's length. Throws
/// Error when they do not fit.
models::Model asked_model_for(const Arguments& arguments, models::DataSplit& data);

/// Throws Error, naming the layer, where a tensor of so many samples of a model, which was asked
/// for by that name, is larger than libraries count or this machine holds.
void require_piece_fits(std::string_view name, const models::Model& model, int samples);

/// What the layers of the model cost, which may be a transformer's shape; `element_bytes` of an
/// activation.
models::ModelFacts asked_facts(const Arguments& arguments, double element_bytes);

/// Throws Error that begins with `place` unless it is auto, uniform or n1/n2/..
void require_partition_name(const std::string& how, std::string_view place);
/// A partition by its name: auto, uniform or n1/n2/.. over layers of these costs.
std::vector<models::StageRange> split_by(const std::string& how,
                                         std::span<const double> layer_costs, int stages,
                                         std::string_view place = "--partition");
/// --partition auto (the default), uniform or n1/n2/.. over layers of these costs.
std::vector<models::StageRange> asked_partition(const Arguments& arguments,
                                                std::span<const double> layer_costs, int stages);

/// What layers cost the stages of a model: of layer j on stage k, costs[kind_of[k]][j].
struct StagePrices {
  std::vector<std::vector<double>> costs;
  std::vector<int> kind_of;
};
/// The same for stages that differ: in their devices, or in whether they pay for recompute.
std::vector<models::StageRange> asked_partition(const Arguments& arguments,
                                                const StagePrices& prices);

/// Prices of two kinds of stages, which run layers at these costs, some of them with a recompute on
/// top.
StagePrices prices_of(const std::vector<double>& layer_costs,
                      const std::vector<double>& recompute_costs,
                      const std::vector<bool>& pays_recompute);

}  // namespace unlatch::tools
