// The simulator beside SimGrid on the same 1F1B graphs: how near their times are, and how many
// times faster it is. Built where SimGrid is found.
//
// bench_simgrid agree     exit 1 where shared links give times that differ by more than 1 %
// bench_simgrid speed     CPU time a task, without and with transfers over shared links
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <string_view>

#include "schedules/error.h"
#include "schedules/registry.h"
#include "sim/event_simulator.h"
#include "sim/simulator.h"
#include "sim/stage_costs.h"
#include "tests/bench/nodes_of_eight.h"
#include "tests/bench/simgrid_peer.h"

namespace unlatch::bench {
namespace {

struct Size {
  int ranks = 0;
  int micro_batches = 0;
};

/// F = 1 ms, B = 2 ms.
struct Case {
  explicit Case(Size size, bool with_messages)
      : costs(sim::stage_times({.transfer = with_messages ? "1" : "0"}, size.ranks)),
        graph(with_transfers(ScheduleSpec::parse("1f1b")
                                 .make({.stages = size.ranks, .micro_batches = size.micro_batches})
                                 .build(),
                             costs.links())) {}
  sim::StageCosts costs;
  TaskGraph graph;
};

double seconds(const Timeline& timeline) {
  return static_cast<double>(makespan(timeline).count()) / 1e9;
}

/// The fastest of some runs, in CPU seconds.
double fastest(int runs, const std::function<double()>& run) {
  double least = INFINITY;
  for (int n = 0; n < runs; ++n) least = std::min(least, run());
  return least;
}

double cpu_s_of(const std::function<void()>& work) {
  const std::clock_t before = std::clock();
  work();
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

/// Messages of 0.5 MB leave most of the network idle, those of 5 MB make it the bottleneck.
int agree() {
  bool all = true;
  for (const Size size : {Size{4, 8}, {8, 32}, {16, 64}}) {
    for (const double bytes : {5e5, 5e6}) {
      const Case both(size, true);
      const sim::NodesOfEight network(size.ranks, bytes);
      const double ours = seconds(sim::run(both.graph, both.costs, network));
      const double theirs = run_in_simgrid(both.graph, both.costs, network).makespan_s;
      const double apart = std::abs(ours - theirs) / theirs;
      fmt::print("P={:<3} M={:<5} {:.1f} MB  unlatch {:.6f} s  SimGrid {:.6f} s  {:.4f} %\n",
                 size.ranks, size.micro_batches, bytes / 1e6, ours, theirs, 100 * apart);
      all = all && apart <= 0.01;
    }
  }
  return all ? 0 : 1;
}

void compare_speed(Size size, bool with_messages) {
  const Case both(size, with_messages);
  const sim::NodesOfEight network(size.ranks, 5e5);
  constexpr int runs = 3;
  const int repeats = std::max(1, 2'000'000 / both.graph.size());
  const double ours = fastest(runs, [&] {
    return cpu_s_of([&] {
             for (int n = 0; n < repeats; ++n) {
               if (with_messages) {
                 sim::run(both.graph, both.costs, network);
               } else {
                 sim::run(both.graph, both.costs);
               }
             }
           }) /
           repeats;
  });
  PeerRun peer;
  const double theirs = fastest(runs, [&] {
    peer = run_in_simgrid(both.graph, both.costs, network);
    return peer.run_s;
  });
  const double tasks = 2.0 * size.ranks * size.micro_batches;
  fmt::print(
      "P={:<3} M={:<5} {:<10} {:>7.0f} F and B: unlatch {:7.1f} ns a task, SimGrid {:7.1f} ns and "
      "{:.1f} ns to build; {:.0f} times faster\n",
      size.ranks, size.micro_batches, with_messages ? "transfers" : "no links", tasks,
      ours / tasks * 1e9, theirs / tasks * 1e9, peer.build_s / tasks * 1e9, theirs / ours);
}

int speed() {
  for (const bool with_messages : {false, true}) {
    for (const Size size : {Size{8, 128}, {16, 1024}}) compare_speed(size, with_messages);
  }
  return 0;
}

int run(std::string_view what) {
  if (what == "agree") return agree();
  if (what == "speed") return speed();
  fmt::print(stderr, "bench_simgrid agree|speed\n");
  return 2;
}

}  // namespace
}  // namespace unlatch::bench

int main(int count, char** arguments) {
  try {
    return unlatch::bench::run(count == 2 ? arguments[1] : "");
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
