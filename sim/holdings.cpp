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

/// Sizes that keep the four counts apart in one sum of bytes.
constexpr int half_tape_bit = 20, input_bit = 36, version_bit = 52;

MemorySizes sizes_that_count(const std::vector<Stage>& counted, int stages) {
  MemorySizes sizes;
  for (auto* each :
       {&sizes.activation, &sizes.weight_grad_activation, &sizes.input, &sizes.weight}) {
    each->assign(static_cast<std::size_t>(stages), 0);
  }
  for (const Stage k : counted) {
    const auto at = static_cast<std::size_t>(k.value);
    sizes.activation[at] = 1;
    sizes.weight_grad_activation[at] = std::int64_t{1} << half_tape_bit;
    sizes.input[at] = std::int64_t{1} << input_bit;
    sizes.weight[at] = std::int64_t{1} << version_bit;
  }
  return sizes;
}

Holding counts_in(std::int64_t bytes) {
  const auto between = [bytes](int from, int to) {
    return static_cast<int>(bytes >> from & ((std::int64_t{1} << (to - from)) - 1));
  };
  return {.tapes = between(0, half_tape_bit),
          .half_tapes = between(half_tape_bit, input_bit),
          .inputs = between(input_bit, version_bit),
          .versions = between(version_bit, 62)};
}

/// The first stage of every rank, the second of every rank that has one, and so on.
std::vector<std::vector<Stage>> one_a_rank(const TaskGraph& graph) {
  std::vector<std::vector<Stage>> rounds;
  std::vector<std::size_t> seen(static_cast<std::size_t>(graph.ranks()), 0);
  for (const Stage k : up_to<Stage>(graph.shape().stages)) {
    const std::size_t round = seen[static_cast<std::size_t>(graph.rank_of(k).value)]++;
    if (round == rounds.size()) rounds.emplace_back();
    rounds[round].push_back(k);
  }
  return rounds;
}

}  // namespace

std::vector<std::vector<Holding>> holdings_by_stage(const TaskGraph& graph) {
  const int stages = graph.shape().stages;
  // Every task takes time, so that no two of one rank happen at the same moment.
  const Timeline timeline = run(graph, StageCosts(stage_times({.update = "1"}, stages)));
  std::vector<std::vector<Holding>> holdings(static_cast<std::size_t>(stages));
  for (const std::vector<Stage>& round : one_a_rank(graph)) {
    const auto ranks = memory(graph, timeline, sizes_that_count(round, stages));
    for (const Stage k : round) {
      for (const MemoryLevel& level :
           ranks[static_cast<std::size_t>(graph.rank_of(k).value)].levels) {
        add(counts_in(level.bytes), holdings[static_cast<std::size_t>(k.value)]);
      }
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
