#include "tools/disturbance_options.h"

#include <algorithm>

#include "schedules/error.h"
#include "sim/straggler_costs.h"
#include "tools/terminal.h"

namespace unlatch::tools {
namespace {

using sim::Straggler;

std::vector<Straggler> read_stragglers(const Arguments& arguments, Surroundings surroundings) {
  std::vector<Straggler> stragglers;
  for (const std::string& text : arguments.all("straggler")) {
    const Straggler& straggler =
        stragglers.emplace_back(Straggler::parse(text, arguments.place("straggler")));
    const bool asks_cluster = straggler.on == Straggler::On::nodes && straggler.node == 0;
    require(!asks_cluster || surroundings.cluster,
            "{} '{}': nothing says which ranks share a node; give node=N, the ranks of a node, or "
            "--cluster FILE",
            arguments.place("straggler"), text);
  }
  return stragglers;
}

bool sends_between(const TaskGraph& graph, const sim::SlowLink& link) {
  return std::ranges::any_of(graph.lanes(), [&](const Lane& lane) {
    const auto ends = sim::ends_of_link(graph, lane);
    return ends && link.joins({ends->from}, {ends->to});
  });
}

}  // namespace

FlagGroup straggler_flags() {
  return {
      "Stragglers",
      {{"slow", "RANK:FACTOR", "A rank that is slow all the time; may be repeated",
        Flag::Kind::repeated},
       {"slow-link", "RANK-RANK:FACTOR",
        "Messages between two ranks, both ways, are slow all the time; may be repeated",
        Flag::Kind::repeated},
       {"pause", "RANK:AT:TIME", "A rank stands still once; may be repeated", Flag::Kind::repeated},
       {"straggler", "SPEC",
        "random:probability=0.3333,factor=1.5, lognormal:sigma=0.2, gamma:shape=10, "
        "empirical:file=PATH or pause:every=T,time=T; on=ranks, nodes or links; node=N ranks a "
        "node; may be repeated",
        Flag::Kind::repeated},
       {"runs", "R", "Runs with random stragglers (1)"},
       {"seed", "N", "Seed of the draws (0)"}}};
}

sim::Disturbance read_disturbance(const Arguments& arguments, int ranks,
                                  Surroundings surroundings) {
  std::vector<sim::SlowRank> slow;
  for (const std::string& text : arguments.all("slow")) {
    slow.push_back(sim::parse_slow(text, ranks, arguments.place("slow")));
  }
  sim::Disturbance disturbance{.slow = sim::slow_factors(slow, ranks, arguments.place("slow")),
                               .stragglers = read_stragglers(arguments, surroundings),
                               .seed = arguments.seed()};
  for (const std::string& text : arguments.all("slow-link")) {
    disturbance.slow_links.push_back(
        sim::parse_slow_link(text, ranks, arguments.place("slow-link")));
  }
  sim::require_distinct(disturbance.slow_links, arguments.place("slow-link"));
  for (const std::string& text : arguments.all("pause")) {
    disturbance.pauses.push_back(sim::parse_pause(text, ranks, arguments.place("pause")));
  }
  require(!disturbance.touches_links() || !surroundings.links_are_shared,
          "--contention fair: slow links are bandwidths of the cluster file there; leave "
          "--slow-link and on=links out, or the contention");
  return disturbance;
}

void note_links_without_time(const sim::Disturbance& disturbance, const TaskGraph& graph) {
  for (const sim::SlowLink& link : disturbance.slow_links) {
    if (sends_between(graph, link)) continue;
    say(
        fmt::format("note: {}: --slow-link {}-{} slows nothing, no message between these ranks "
                    "takes time",
                    graph.schedule(), link.a.value, link.b.value));
  }
  const bool draws = std::ranges::find(disturbance.stragglers, Straggler::On::links,
                                       &Straggler::on) != disturbance.stragglers.end();
  const bool sends = std::ranges::any_of(
      graph.lanes(), [&](const Lane& lane) { return sim::ends_of_link(graph, lane).has_value(); });
  if (draws && !sends) {
    say(fmt::format("note: {}: --straggler with on=links slows nothing, no message takes time",
                    graph.schedule()));
  }
}

}  // namespace unlatch::tools
