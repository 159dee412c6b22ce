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
///   local_head   a classifier with an optimizer of its own
///   synthesiser  a map of the output plus a constant for each of its numbers, or one for each
///                class if conditional; zero at first. Steps down the mean over the samples (of
///                a sequence, over the tokens, which share the constants) of the squared error, by
///                the rate over the mean square norm of what it sees (normalised least mean
///                squares), so that a rate up to 1 never overshoots.
///   feedback     a fixed map of the error
/// Their networks are those of head_networks.h.
std::vector<std::unique_ptr<LocalHead>> make_dnn_heads(
    const LocalGradients& local, std::span<const std::unique_ptr<DnnStageModule>> stages,
    const DnnRun& run);

}  // namespace unlatch::exec
