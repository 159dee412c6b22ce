#include "tests/bench/simgrid_peer.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <map>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

#include "schedules/error.h"

namespace unlatch::bench {
namespace {

namespace s4u = simgrid::s4u;

double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// The activities of a graph on a platform of its own. Names are those of SimGrid 3.32, which
/// version 4 still knows.
class Peer {
 public:
  Peer(const s4u::Engine& engine, const TaskGraph& graph, const sim::CostModel& costs,
       const sim::Traffic& traffic)
      : graph_(graph), costs_(costs), traffic_(traffic) {
    const s4u::NetZone* root = engine.get_netzone_root();  // 3.32 has none yet
    zone_ = s4u::create_full_zone("cluster");
    if (root != nullptr) zone_->set_parent(root);
    for (int r = 0; r < graph.ranks(); ++r) {
      hosts_.push_back(zone_->create_host("rank" + std::to_string(r), flops_a_second));
    }
    for (std::size_t l = 0; l < traffic.links().size(); ++l) {
      links_.push_back(zone_->create_link("link" + std::to_string(l), traffic.links()[l])->seal());
    }
    add_routes();
    zone_->seal();
  }

  void build() {
    for (const Task& task : graph_.tasks()) add(task);
    for (const TaskId id : graph_.ids()) {
      // SimGrid refuses the same dependency twice.
      std::vector<TaskId> before;
      for (const Edge edge : graph_.edges_into(id)) {
        if (std::ranges::find(before, edge.from()) != before.end()) continue;
        before.push_back(edge.from());
        follow(edge.from().value, id.value);
      }
    }
    // Hosts come last: an activity that has one may start.
    for (const TaskId id : graph_.ids()) assign(id);
    for (const TaskId id : graph_.ids()) {
      if (graph_.edges_into(id).empty()) work_[id.value]->start();
    }
  }

 private:
  static constexpr double flops_a_second = 1e9;  ///< a flop is a nanosecond

  s4u::Host* host(Rank r) const { return hosts_[r.value]; }

  /// Sender and receiver of a send.
  std::pair<Rank, Rank> ends(const Task& task) const {
    const int towards = task.op == Op::send_forward ? 1 : -1;
    return {graph_.rank_of(task.stage), graph_.rank_of(task.stage + towards)};
  }

  void add_routes() {
    std::map<std::pair<Rank, Rank>, bool> known;
    for (const Task& task : graph_.tasks()) {
      if (!is_send(task.op) || std::exchange(known[ends(task)], true)) continue;
      std::vector<s4u::LinkInRoute> route;
      for (const int link : traffic_.transfers(task).front().route) {
        route.emplace_back(links_[link]);
      }
      const auto [from, to] = ends(task);
      zone_->add_route(host(from)->get_netpoint(), host(to)->get_netpoint(), nullptr, nullptr,
                       route, false);
    }
  }

  /// One of the two, the other stays empty.
  void add(const Task& task) {
    s4u::ExecPtr& work = work_.emplace_back();
    s4u::CommPtr& message = messages_.emplace_back();
    if (is_send(task.op)) {
      message = s4u::Comm::sendto_init();
      message->set_name("message");
      message->set_payload_size(static_cast<std::uint64_t>(traffic_.transfers(task)[0].bytes));
    } else {
      work = s4u::Exec::init();
      work->set_name("work");
      work->set_flops_amount(static_cast<double>(costs_.duration(task).count()));
    }
  }

  void follow(int from, int to) {
    const s4u::ActivityPtr next = work_[to] ? s4u::ActivityPtr(work_[to]) : messages_[to];
    if (work_[from]) {
      work_[from]->add_successor(next);
    } else {
      messages_[from]->add_successor(next);
    }
  }

  void assign(TaskId id) {
    const Task& task = graph_.task(id);
    if (work_[id.value]) {
      work_[id.value]->set_host(host(graph_.rank(task)));
      return;
    }
    const auto [from, to] = ends(task);
    messages_[id.value]->set_source(host(from));
    messages_[id.value]->set_destination(host(to));
  }

  const TaskGraph& graph_;
  const sim::CostModel& costs_;
  const sim::Traffic& traffic_;
  s4u::NetZone* zone_ = nullptr;
  std::vector<s4u::Host*> hosts_;
  std::vector<s4u::Link*> links_;
  std::vector<s4u::ExecPtr> work_;      ///< by task
  std::vector<s4u::CommPtr> messages_;  ///< by task
};

PeerRun run_here(const TaskGraph& graph, const sim::CostModel& costs, const sim::Traffic& traffic) {
  // Answers of TCP on the way back, 5 % of every flow, are no part of the model.
  std::vector<std::string> words{"peer", "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0",
                                 "--log=root.thresh:critical"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  s4u::Engine engine(&count, arguments.data());
  Peer peer(engine, graph, costs, traffic);
  PeerRun result;
  double before = cpu_s();
  peer.build();
  result.build_s = cpu_s() - before;
  before = cpu_s();
  engine.run();
  result.run_s = cpu_s() - before;
  result.makespan_s = s4u::Engine::get_clock();
  return result;
}

}  // namespace

PeerRun run_in_simgrid(const TaskGraph& graph, const sim::CostModel& costs,
                       const sim::Traffic& traffic) {
  std::array<int, 2> ends{};
  require(pipe(ends.data()) == 0, "no pipe to the process of SimGrid");
  std::fflush(stdout);  // or the child's copy is printed, too
  const pid_t child = fork();
  require(child >= 0, "no process for SimGrid");
  if (child == 0) {
    const PeerRun mine = run_here(graph, costs, traffic);
    const bool written = write(ends[1], &mine, sizeof mine) == sizeof mine;
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  PeerRun result;
  const bool complete = read(ends[0], &result, sizeof result) == sizeof result;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  require(complete && status == 0, "SimGrid did not finish the graph");
  return result;
}

}  // namespace unlatch::bench
