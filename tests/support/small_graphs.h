// Every variant of every schedule at a few small shapes, for tests that run them all.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/support/variants.h"

namespace unlatch::testing_support {

/// Heads with a loss, and synthesisers, belong to one copy of a model.
inline bool runs_anywhere(const TaskGraph& graph) {
  const GradientSource source = graph.learning().local_gradients.source;
  return graph.shape().copies == 1 || source == GradientSource::next_stage ||
         source == GradientSource::feedback;
}

/// Of keys that change what tasks do with gradients and weights, and not the tasks.
inline std::vector<std::string> variants_of_learning(std::string_view method) {
  if (method == "ssgd") return {"ssgd:compression=topk,ratio=0.3,clip=0.1"};
  if (method == "pipedream") return {"pipedream:weights=latest,correct=0.5"};
  if (method == "asgd") {
    return {"asgd:compensation=constant,lambda=0.5", "asgd:compensation=adaptive,lambda=0.5"};
  }
  return {};
}

inline std::vector<TaskGraph> small_graphs(int batches = 5) {
  std::vector<TaskGraph> graphs;
  for (const Method& method : methods()) {
    for (const auto& [ranks, parts, replicas] :
         {std::tuple{1, 2, 1}, {2, 4, 1}, {2, 3, 1}, {4, 8, 1}, {3, 6, 1}, {2, 4, 2}, {1, 3, 3}}) {
      const int stages = ranks * method.chunks.usual;
      std::vector<std::string> texts = variants(method, stages, method.chunks.usual);
      for (std::string& text : variants_of_learning(method.name)) texts.push_back(std::move(text));
      for (const std::string& text : texts) {
        const ScheduleSpec spec = ScheduleSpec::parse(text);
        const Shape shape{.stages = stages,
                          .chunks = method.chunks.usual,
                          .micro_batches = parts,
                          .batches = batches,
                          .replicas = replicas};
        if (!runs(spec, shape)) continue;
        TaskGraph graph = spec.make(shape).build();
        if (runs_anywhere(graph)) graphs.push_back(std::move(graph));
      }
    }
  }
  return graphs;
}

inline std::string describe(const TaskGraph& graph) {
  const Shape& shape = graph.shape();
  return fmt::format("{} P={} V={} R={} M={}", graph.schedule(), shape.ranks(), shape.chunks,
                     shape.replicas, shape.micro_batches);
}

}  // namespace unlatch::testing_support
