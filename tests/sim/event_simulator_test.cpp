// The simulator with shared links: without transfers it is the one-pass simulator on every
// schedule; with them, hand-worked shares on small topologies.
#include "sim/event_simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "sim/all_reduce.h"
#include "sim/straggler_costs.h"
#include "tests/sim/support.h"
#include "tests/support/small_graphs.h"

namespace unlatch::sim {
namespace {

using Ns = std::int64_t;

/// Transfers by sending stage; every send takes its own, other tasks none.
class HandTraffic : public Traffic {
 public:
  explicit HandTraffic(std::vector<double> links) : links_(std::move(links)) {}
  HandTraffic& send(int stage, std::vector<int> route, double bytes, Ns latency = 0) {
    transfers_[stage] = {std::move(route), nanoseconds(latency), bytes};
    return *this;
  }
  const std::vector<double>& links() const override { return links_; }
  std::span<const Transfer> transfers(const Task& task) const override {
    const auto found = transfers_.find(task.stage.value);
    if (!is_send(task.op) || found == transfers_.end()) return {};
    return {&found->second, 1};
  }

 private:
  std::vector<double> links_;
  std::map<int, Transfer> transfers_;
};

TEST(EventSimulator, EqualsTheOnePassSimulatorWithoutTransfers) {
  std::mt19937 random(3);
  const HandTraffic no_traffic({});
  int all = 0;
  for (const TaskGraph& plain : testing_support::small_graphs()) {
    SCOPED_TRACE(testing_support::describe(plain));
    const auto times = [&] {
      std::string list;
      for (int k = 0; k < plain.shape().stages_a_copy(); ++k) {
        list += fmt::format("{}{}", k == 0 ? "" : ",", random() % 5);
      }
      return list;
    };
    const bool without = random() % 2 == 0;
    CostSettings settings{.forward = times(),

                          .input_grad = times(),
                          .weight_grad = times(),
                          .recompute = times(),
                          .update = times(),
                          .overlap = without ? "0.25" : "1"};
    if (plain.shape().stages_a_copy() > 1) settings.transfer = fmt::format("{}", random() % 3);
    const StageCosts costs(
        stage_times(settings, plain.shape().stages_a_copy()).for_copies(plain.shape().copies));
    Links links = costs.links();
    links.one_queue_a_rank = random() % 2 == 0;
    const TaskGraph graph = with_transfers(plain, links);
    const std::vector<double> slow(graph.ranks(), 1.25);
    const StragglerCosts slowed(
        costs, graph, {.slow = slow, .stragglers = {Straggler::parse("random")}, .seed = 7}, 0);
    const Disturbance still{.pauses = {{Rank{0}, {ms(2.5), ms(1)}}},
                            .stragglers = {Straggler::parse("pause:every=4,time=1.5"),
                                           Straggler::parse("pause:every=9,time=1,on=links")},
                            .seed = 7};
    const StragglerCosts paused(costs, graph, still, 0);
    for (const CostModel* model :
         {static_cast<const CostModel*>(&costs), static_cast<const CostModel*>(&slowed),
          static_cast<const CostModel*>(&paused)}) {
      ASSERT_EQ(run(graph, *model, no_traffic).spans, run(graph, *model).spans);
      ++all;
    }
  }
  EXPECT_GT(all, 1000);
}

/// Sends that become ready at given times, each on a lane of its own: stage k computes for
/// `ready_ns[k]` and then sends.
std::vector<Span> sends(const std::vector<Ns>& ready_ns, const Traffic& traffic) {
  const int stages = static_cast<int>(ready_ns.size());
  HandGraph hand({.stages = stages});
  for (int k = 0; k < stages; ++k) {
    const TaskId forward = hand.add(Op::forward, k, 0);
    hand.add(Op::send_forward, k, 0, {{forward, EdgeKind::local}}, Engine::link_forward);
  }
  const TaskGraph graph = hand.build();
  StageTimes times = stage_times({}, stages);
  for (int k = 0; k < stages; ++k) {
    times.forward[static_cast<std::size_t>(k)] = nanoseconds(ready_ns[static_cast<std::size_t>(k)]);
  }
  const Timeline timeline = run(graph, StageCosts(times), traffic);
  std::vector<Span> spans;
  for (const TaskId id : graph.ids()) {
    if (is_send(graph.task(id).op)) spans.push_back(timeline[id]);
  }
  return spans;
}

Span span_ns(Ns start, Ns end) { return {nanoseconds(start), nanoseconds(end)}; }
constexpr double byte_a_ns = 1e9;

// One bus. The first is alone for 500 ns, then both have half of it.
TEST(EventSimulator, SharesABus) {
  HandTraffic bus({byte_a_ns});
  bus.send(0, {0}, 1000).send(1, {0}, 1000);
  EXPECT_THAT(sends({0, 500}, bus), testing::ElementsAre(span_ns(0, 1500), span_ns(500, 2000)));
}

// A star: up and down links of their own. Two flows into rank 2 share its way down only.
TEST(EventSimulator, SharesTheReceiversLinkOfAStar) {
  HandTraffic star({byte_a_ns, byte_a_ns, byte_a_ns, byte_a_ns});  // up 0, up 1, down 2, down 3
  star.send(0, {0, 2}, 600).send(1, {1, 2}, 600).send(2, {1, 3}, 600);
  // Rates 1/2, 1/2 and 1/2: the third shares the way up with the second.
  EXPECT_THAT(sends({0, 0, 0}, star),
              testing::ElementsAre(span_ns(0, 1200), span_ns(0, 1200), span_ns(0, 1200)));
}

// A tree whose uplink is half as fast as what hangs below it: two flows through it get a quarter,
// the local one the rest of its link. When the first two are done it is alone.
TEST(EventSimulator, SharesTheUplinkOfATree) {
  HandTraffic tree({byte_a_ns, byte_a_ns, byte_a_ns / 2});  // leaves 0 and 1, uplink 2
  tree.send(0, {0, 2}, 100).send(1, {1, 2}, 100).send(2, {0}, 600);
  // 0 and 1: 0.25 bytes a ns until 400. 2: 0.75 until 400 (300 bytes), then 1: 700.
  EXPECT_THAT(sends({0, 0, 0}, tree),
              testing::ElementsAre(span_ns(0, 400), span_ns(0, 400), span_ns(0, 700)));
}

// A ring of three one-way links: neighbours do not meet, a flow over two links meets both.
TEST(EventSimulator, SharesTheLinksOfARing) {
  HandTraffic ring({byte_a_ns, byte_a_ns, byte_a_ns});
  ring.send(0, {0}, 500).send(1, {1}, 500).send(2, {0, 1}, 500);
  EXPECT_THAT(sends({0, 0, 0}, ring),
              testing::ElementsAre(span_ns(0, 1000), span_ns(0, 1000), span_ns(0, 1000)));
}

TEST(EventSimulator, WaitsForTheLatencyBeforeAnyByte) {
  HandTraffic line({byte_a_ns});
  line.send(0, {0}, 1000, 50).send(1, {0}, 0, 30).send(2, {}, 1e6, 20);
  EXPECT_THAT(sends({0, 0, 0}, line),
              testing::ElementsAre(span_ns(0, 1050), span_ns(0, 30), span_ns(0, 20)));
}

/// An AR of each stage, which has no messages: its members' flows go their own routes.
class Summing : public Traffic {
 public:
  Summing(std::vector<double> links, std::vector<Transfer> flows)
      : links_(std::move(links)), flows_(std::move(flows)) {}
  const std::vector<double>& links() const override { return links_; }
  std::span<const Transfer> transfers(const Task& task) const override {
    if (task.op != Op::all_reduce) return {};
    return flows_;
  }

 private:
  std::vector<double> links_;
  std::vector<Transfer> flows_;
};

Timeline all_reduces(int stages, const Traffic& traffic) {
  HandGraph hand({.stages = stages});
  for (int k = 0; k < stages; ++k) hand.add(Op::all_reduce, k, 0, {}, Engine::all_reduce);
  return run(hand.build(), StageCosts(stage_times({}, stages)), traffic);
}

// A star of 8 with 5 ns a link: alone on it, collectives take what their formulas say.
TEST(EventSimulator, TakesTheTimeOfACollectiveThatIsAlone) {
  const std::vector<double> star(16, byte_a_ns);
  const auto over_star = [](int from, int to) {
    return Route{.links = {2 * from, 2 * to + 1}, .latency = nanoseconds(10), .rate = byte_a_ns};
  };
  for (const Collective& collective :
       {ring_all_reduce(8), tree_all_reduce(8), ring_all_gather(8)}) {
    const std::vector<Transfer> flows = transfers_of(collective, 800, over_star);
    const Timeline timeline = all_reduces(1, Summing(star, flows));
    EXPECT_NEAR(makespan(timeline).count(), time_alone(flows, star).count(), 2);
  }
}

// Two sums over the same two links, of 500 bytes on one and 200 on the other each: the first link
// is what both wait for.
TEST(EventSimulator, EndsACollectiveWithItsLastFlow) {
  const Summing both({byte_a_ns, byte_a_ns},
                     {{{0}, nanoseconds(10), 500}, {{1}, nanoseconds(10), 200}});
  EXPECT_EQ(all_reduces(1, both).spans[0], span_ns(0, 510));
  const Timeline two = all_reduces(2, both);
  EXPECT_EQ(two.spans[0], span_ns(0, 1010));
  EXPECT_EQ(two.spans[1], span_ns(0, 1010));
}

TEST(EventSimulator, RefusesATransferWithoutEnd) {
  HandTraffic slow({1e-9});
  slow.send(0, {0}, 1e12);
  EXPECT_THAT(error_of([&] { sends({0}, slow); }), testing::HasSubstr("longer than 126 years"));
}

/// All bytes of a schedule's transfers go through, and a link that is twice as fast never makes a
/// run slower that has nothing but transfers to wait for.
TEST(EventSimulator, MovesTheTransfersOfAPipeline) {
  const Shape shape{.stages = 4, .micro_batches = 8};
  const StageCosts costs = costs_of({.transfer = "1"}, 4);  // there are sends; traffic times them
  const TaskGraph graph = graph_of("1f1b", shape, costs.links());
  nanoseconds before{std::numeric_limits<Ns>::max()};
  for (const double speed : {0.25, 0.5, 1.0, 2.0, 1e6}) {
    HandTraffic bus({speed * byte_a_ns});
    for (int k = 0; k < 4; ++k) bus.send(k, {0}, 1e6);
    const Timeline timeline = run(graph, costs, bus);
    EXPECT_LT(makespan(timeline), before);
    before = makespan(timeline);
    for (const TaskId id : graph.ids()) {
      for (const Edge edge : graph.edges_into(id)) {
        ASSERT_GE(timeline[id].start, timeline[edge.from()].end);
      }
    }
  }
  const nanoseconds without = makespan(run(graph_of("1f1b", shape), costs));
  EXPECT_NEAR(static_cast<double>(before.count()), static_cast<double>(without.count()), 1e3);
}

}  // namespace
}  // namespace unlatch::sim
