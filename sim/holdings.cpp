#include "sim/holdings.h"

#include <algorithm>

#include "sim/simulator.h"
#include "sim/stage_costs.h"
#include "traces/memory.h"

namespace unlatch::sim {
namespace {

bool covers(const Holding& a, const Holding& b) {
  return a.tapes >= b.tapes && a.half_tapes >= b.half_tapes && a.inputs >= b.inputs &&
         a.versions >= b.versions;
}

void add(const Holding& holding, std::vector<Holding>& to) {
  const bool known =
      std::ranges::any_of(to, [&](const Holding& other) { return covers(other, holding); });
  if (known) return;
  std::erase_if(to, [&](const Holding& other) { return covers(holding, other); });
  to.push_back(holding);
}

std::vector<int> stages_by_rank(const TaskGraph& graph) {
  std::vector<int> stages(static_cast<std::size_t>(graph.ranks()), 0);
  for (const Stage k : up_to<Stage>(graph.shape().stages)) {
    ++stages[static_cast<std::size_t>(graph.rank_of(k).value)];
  }
  return stages;
}

}  // namespace

std::vector<std::vector<Holding>> holdings_by_rank(const TaskGraph& graph) {
  // Every task takes time, so that no two of one rank happen at the same moment.
  const StageCosts costs(stage_times({.update = "1"}, graph.shape().stages));
  MemorySizes whole_tapes;
  whole_tapes.activation.assign(static_cast<std::size_t>(graph.shape().stages), 1);
  const std::vector<RankMemory> ranks = memory(graph, run(graph, costs), whole_tapes);
  const std::vector<int> stages = stages_by_rank(graph);
  std::vector<std::vector<Holding>> holdings(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (stages[r] != 1) {
      holdings[r].push_back({.tapes = 1});
      continue;
    }
    for (const MemoryLevel& level : ranks[r].levels) {
      const auto whole = static_cast<int>(level.bytes);
      add({.tapes = whole,
           .half_tapes = level.activations - whole,
           .inputs = level.inputs,
           .versions = level.weight_versions},
          holdings[r]);
    }
  }
  return holdings;
}

double most_bytes(const std::vector<Holding>& holdings, const HoldingSizes& sizes) {
  double most = 0;
  for (const Holding& holding : holdings) {
    most = std::max(most, holding.tapes * sizes.tape + holding.half_tapes * sizes.half_tape +
                              holding.inputs * sizes.input + holding.versions * sizes.version);
  }
  return most + sizes.always;
}

}  // namespace unlatch::sim
