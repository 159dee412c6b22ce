// evaluate(): how well given weights do on a data set; forward only, beside any training.
#pragma once

#include <span>

#include "exec/dnn_stage.h"
#include "models/dataset.h"

namespace unlatch::exec {

struct Evaluation {
  double accuracy = 0;  ///< correct / samples
  double loss = 0;      ///< mean over the samples
  int correct = 0;
  int samples = 0;  ///< of text, tokens
};

struct EvaluationOptions {
  int batch_size = 64;  ///< the last batch may be smaller
  int threads = 1;      ///< at most so many workers
};

/// Flat weights and running statistics of the whole model (batch norms use the latter). The result
/// depends on neither the number of threads nor the split the weights were trained with.
Evaluation evaluate(const models::Model& model, std::span<const float> weights,
                    std::span<const float> statistics, const models::Dataset& data,
                    const EvaluationOptions& options);

/// The parts of all stages, in order, as one flat array of the whole model.
std::vector<float> joined_weights(std::span<const Tensor> stages);
std::vector<float> joined_statistics(std::span<const std::unique_ptr<DnnStageModule>> stages);

}  // namespace unlatch::exec
