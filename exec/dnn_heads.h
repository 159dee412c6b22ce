// The local heads of oneDNN stages: auxiliary classifiers (DGL), gradient synthesisers (DNI) and
// fixed random feedback (DFA).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "exec/dnn_stage.h"
#include "exec/local_head.h"
#include "schedules/graph.h"

namespace unlatch::exec {

/// One head for each stage of a copy of the model, as local gradients of that source want them;
/// null for the last stage. Empty where gradients come from the next stage. What a head starts with
/// depends on the run's seed and the number of its stage. Each belongs to its stage:
///   local_head   max pooling of an image to about 2x2, a linear layer to the classes and softmax
///                cross entropy, with an optimizer of its own. Belilovsky et al., ICML 2020, pool
///                to 2x2 as well, by averages, and have hidden layers, of which this head has none.
///   synthesiser  a linear map of the output (a 3x3 convolution if that is an image of more than
///                1024 numbers) plus a constant, one for each class if conditional; zero at first.
///                Jaderberg et al., ICML 2017. Steps down the mean over the samples of the squared
///                error, by the rate over the mean square norm of what it sees (normalised least
///                mean squares), so that a rate up to 1 never overshoots.
///   feedback     a matrix uniform in +-1/sqrt(numbers of the output), the size that Launay et al.,
///                NeurIPS 2020 (arXiv 2006.12878), give it in their code.
std::vector<std::unique_ptr<LocalHead>> make_dnn_heads(
    const LocalGradients& local, std::span<const std::unique_ptr<DnnStageModule>> stages,
    const DnnRun& run);

/// Floats of each kind that the head on an output of that shape keeps.
struct HeadSize {
  std::int64_t weights = 0;
  std::int64_t gradient = 0;
};
HeadSize head_size(const LocalGradients& local, const models::SampleShape& output, int classes);

}  // namespace unlatch::exec
