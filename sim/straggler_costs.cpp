#include "sim/straggler_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "schedules/error.h"
#include "sim/units.h"

namespace unlatch::sim {
namespace {

/// Each straggler draws from a seed of its own; the first from the seed as it is.
std::uint64_t seed_of(std::uint64_t seed, std::size_t number) {
  return number == 0 ? seed : mixed(seed ^ mixed(number));
}

}  // namespace

Rank receiver_of(const TaskGraph& graph, Op send, Stage from) {
  const int other = from.value + (send == Op::send_forward ? 1 : -1);
  return graph.rank_of({std::clamp(other, 0, graph.shape().stages - 1)});
}

nanoseconds stretched(nanoseconds t, double factor) {
  const double slowed = static_cast<double>(t.count()) * factor;
  constexpr double most_ns = 4e18;  // two of them still fit 64 bits
  require(slowed < most_ns,
          "a task of {} made {:.6g} times slower would last longer than 126 years, the most that "
          "can be simulated; give shorter costs or smaller factors",
          format_duration(t), factor);
  return nanoseconds(std::llround(slowed));
}

std::optional<StragglerPlace> ends_of_link(const TaskGraph& graph, const Lane& lane) {
  constexpr int server = 1 << 24, all_copies = server + 1, all_ranks = server + 2;
  const auto to = [&](Op send) {
    return StragglerPlace{lane.rank.value, receiver_of(graph, send, lane.boundary).value};
  };
  switch (lane.engine) {
    case Engine::link_forward:
      return to(Op::send_forward);
    case Engine::link_backward:
      return to(Op::send_backward);
    case Engine::send:
      return StragglerPlace{lane.rank.value, all_ranks};
    case Engine::push:
      return StragglerPlace{lane.rank.value, server};
    case Engine::pull:
      return StragglerPlace{server, lane.rank.value};
    case Engine::all_reduce:
      return StragglerPlace{lane.rank.value, all_copies};
    case Engine::compute:
    case Engine::recompute:
    case Engine::control:
      break;
  }
  return std::nullopt;
}

StageTimes with_slow_links(StageTimes times, const TaskGraph& graph,
                           const Disturbance& disturbance) {
  for (const Stage k : up_to<Stage>(times.stages() - 1)) {
    const double factor = disturbance.slow_factor(graph.rank_of(k), graph.rank_of(k + 1));
    for (auto* transfers : {&times.activation_transfer, &times.gradient_transfer}) {
      nanoseconds& t = (*transfers)[static_cast<std::size_t>(k.value)];
      t = stretched(t, factor);
    }
  }
  return times;
}

StragglerCosts::StragglerCosts(const StageCosts& costs, const Disturbance& disturbance, int run)
    : traffic_(costs.traffic()),
      workers_(costs.workers()),
      table_(*costs.table()),
      overlap_(costs.times().overlap),
      node_of_rank_(disturbance.node_of_rank),
      run_(run) {
  for (std::size_t i = 0; i < disturbance.stragglers.size(); ++i) {
    const Straggler& straggler = disturbance.stragglers[i];
    if (straggler.kind == Straggler::Kind::pause) continue;
    draws_.push_back({straggler, seed_of(disturbance.seed, i)});
  }
}

StragglerCosts::StragglerCosts(const StageCosts& costs, const TaskGraph& graph,
                               const Disturbance& disturbance, int run)
    : StragglerCosts(costs, disturbance, run) {
  find_lanes(graph, disturbance);
  std::vector<Rank> ranks;
  for (const Stage k : up_to<Stage>(table_.stages())) ranks.push_back(graph.rank_of(k));
  if (draws_.empty()) slow_down(ranks, disturbance);
  find_pauses(disturbance);
}

StragglerCosts::StragglerCosts(const StageCosts& costs, const std::vector<Rank>& ranks,
                               const Disturbance& disturbance, int run)
    : StragglerCosts(costs, disturbance, run) {
  const bool pauses = !disturbance.pauses.empty() ||
                      std::ranges::find(disturbance.stragglers, Straggler::Kind::pause,
                                        &Straggler::kind) != disturbance.stragglers.end();
  require(!pauses && !disturbance.touches_links(),
          "pauses and disturbed links want the whole graph; leave them out");
  for (const Rank rank : ranks) {
    stages_.push_back(
        {.place = StragglerPlace{.from = rank.value}, .slow = disturbance.slow_factor(rank)});
  }
  if (draws_.empty()) slow_down(ranks, disturbance);
}

void StragglerCosts::find_lanes(const TaskGraph& graph, const Disturbance& disturbance) {
  for (const Lane& lane : graph.lanes()) {
    const auto link = ends_of_link(graph, lane);
    lanes_.push_back({.is_link = link.has_value(),
                      .is_barrier = lane.engine == Engine::control,
                      .place = link.value_or(StragglerPlace{.from = lane.rank.value}),
                      .slow = link ? disturbance.slow_factor({link->from}, {link->to})
                                   : disturbance.slow_factor(lane.rank)});
  }
}

void StragglerCosts::slow_down(const std::vector<Rank>& ranks, const Disturbance& disturbance) {
  const auto slow = [&](Op op, Stage k, double factor) {
    table_.set(op, k, stretched(table_.at(op, k), factor));
  };
  for (const Stage k : up_to<Stage>(table_.stages())) {
    const Rank rank = ranks[k.value];
    for (int op = 0; is_compute(static_cast<Op>(op)); ++op) {
      slow(static_cast<Op>(op), k, disturbance.slow_factor(rank));
    }
    const auto to = [&](int other) {
      return ranks[std::clamp(other, 0, static_cast<int>(ranks.size()) - 1)];
    };
    slow(Op::send_forward, k, disturbance.slow_factor(rank, to(k.value + 1)));
    slow(Op::send_backward, k, disturbance.slow_factor(rank, to(k.value - 1)));
  }
}

PauseSources StragglerCosts::pauses_of(const LanePlace& lane,
                                       const Disturbance& disturbance) const {
  PauseSources sources;
  if (lane.is_barrier) return sources;
  for (const RankPause& pause : disturbance.pauses) {
    const bool here = !lane.is_link && pause.rank.value == lane.place.from;
    if (here) sources.stated.push_back(pause.pause);
  }
  for (std::size_t i = 0; i < disturbance.stragglers.size(); ++i) {
    const Straggler& straggler = disturbance.stragglers[i];
    if (straggler.kind != Straggler::Kind::pause) continue;
    if (const auto place = drawn_for(straggler, lane)) {
      sources.random.push_back(straggler.pauses(seed_of(disturbance.seed, i), run_, *place));
    }
  }
  return sources;
}

/// The lanes of a rank stand still together, and so do those of a link.
void StragglerCosts::find_pauses(const Disturbance& disturbance) {
  std::map<StragglerPlace, int> known;
  for (const LanePlace& lane : lanes_) {
    pauses_.place_of_lane.push_back(-1);
    PauseSources sources = pauses_of(lane, disturbance);
    if (sources.empty()) continue;
    const auto [found, added] =
        known.try_emplace(lane.place, static_cast<int>(pauses_.places.size()));
    if (added) pauses_.places.push_back(std::move(sources));
    pauses_.place_of_lane.back() = found->second;
  }
}

std::optional<StragglerPlace> StragglerCosts::drawn_for(const Straggler& straggler,
                                                        const LanePlace& lane) const {
  const bool wants_links = straggler.on == Straggler::On::links;
  if (wants_links != lane.is_link) return std::nullopt;
  if (straggler.on != Straggler::On::nodes) return lane.place;
  if (straggler.node > 0) return StragglerPlace{.from = lane.place.from / straggler.node};
  require(!node_of_rank_.empty(),
          "--straggler with on=nodes: nothing says which ranks share a node; give node=N, the "
          "ranks of a node, or --cluster FILE");
  return StragglerPlace{.from = node_of_rank_[static_cast<std::size_t>(lane.place.from)]};
}

nanoseconds StragglerCosts::duration(const Task& task) const {
  const nanoseconds fixed = table_.at(task.op, task.stage);
  if (draws_.empty() || fixed.count() == 0) return fixed;
  if (lanes_.empty() && !is_compute(task.op)) return fixed;
  const LanePlace& lane = lanes_.empty() ? stages_[task.stage.value] : lanes_[task.lane];
  double factor = lane.slow;
  for (const auto& [straggler, seed] : draws_) {
    if (const auto place = drawn_for(straggler, lane)) {
      factor *= straggler.draw(seed, run_, *place, task.step);
    }
  }
  return factor == 1 ? fixed : stretched(fixed, factor);
}

}  // namespace unlatch::sim
