// The networks behind local heads, whatever device they run on: auxiliary classifiers (DGL),
// gradient synthesisers (DNI) and fixed random feedback (DFA).
#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"
#include "schedules/learning.h"

namespace unlatch::exec {

/// On the output of a stage, where that is a sequence on each token: max pooling of an image to
/// about 2x2, then a linear layer to the classes; softmax cross entropy follows. Belilovsky et al.,
/// ICML 2020, pool to 2x2 as well, by averages, and have hidden layers, of which this head has
/// none.
models::Model classifier(const models::SampleShape& output, int classes);

/// The linear map of an output that a synthesiser adds its constants to (Jaderberg et al., ICML
/// 2017): of all numbers to all numbers (of a token), or a 3x3 convolution if the output is an
/// image of more than 1024 numbers, which would have too many weights.
models::Model map_of_outputs(const models::SampleShape& output, int classes);
bool is_mapped_by_convolution(const models::SampleShape& output);
/// How often a number of the output meets the weights of one number of the prediction, at most.
int meetings_with_weights(const models::SampleShape& output);

/// The linear map of the last stage's error to a gradient of that output.
models::Model map_of_errors(int classes, const models::SampleShape& output);
/// Its weights: uniform in +-1/sqrt(numbers of the output), the size that Launay et al., NeurIPS
/// 2020 (arXiv 2006.12878), give it in their code.
std::vector<float> feedback_weights(int classes, const models::SampleShape& output,
                                    std::uint64_t seed);

/// What the head of a stage of the model starts from, apart from the model's own layers.
std::uint64_t seed_of_head(std::uint64_t seed_of_run, std::size_t model_stage);

/// Floats of each kind that the head on an output of that shape keeps.
struct HeadSize {
  std::int64_t weights = 0;
  std::int64_t gradient = 0;
};
HeadSize head_size(const LocalGradients& local, const models::SampleShape& output, int classes);

}  // namespace unlatch::exec
