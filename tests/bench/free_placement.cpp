#include "tests/bench/free_placement.h"

#include <vector>

#ifdef UNLATCH_BENCH_TASKFLOW
#include <taskflow/taskflow.hpp>
#endif
#ifdef UNLATCH_BENCH_TBB
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>

#include <deque>
#endif

namespace unlatch::bench {

namespace {

[[maybe_unused]] constexpr std::size_t workers = 2;

/// Calls joined(before, after) for every edge.
template <class Joined>
[[maybe_unused]] void for_each_edge(const TaskGraph& graph, const Joined& joined) {
  for (const TaskId id : graph.ids()) {
    for (const Edge edge : graph.edges_into(id)) joined(edge.from(), id);
  }
}

#ifdef UNLATCH_BENCH_TASKFLOW
class Taskflow : public FreePlacement {
 public:
  Taskflow(const TaskGraph& graph, const std::function<void()>& work) {
    std::vector<tf::Task> tasks;
    for (int i = 0; i < graph.size(); ++i) tasks.push_back(flow_.emplace([&work] { work(); }));
    for_each_edge(graph, [&](TaskId before, TaskId after) {
      tasks[before.value].precede(tasks[after.value]);
    });
  }
  void run() override { executor_.run(flow_).wait(); }

 private:
  tf::Taskflow flow_;
  tf::Executor executor_{workers};
};
#endif

#ifdef UNLATCH_BENCH_TBB
class OneTbb : public FreePlacement {
 public:
  OneTbb(const TaskGraph& graph, const std::function<void()>& work) {
    for (int i = 0; i < graph.size(); ++i) {
      nodes_.emplace_back(flow_, [&work](const tbb::flow::continue_msg&) { work(); });
    }
    std::vector<bool> waits(nodes_.size(), false);
    for_each_edge(graph, [&](TaskId before, TaskId after) {
      tbb::flow::make_edge(nodes_[before.value], nodes_[after.value]);
      waits[after.value] = true;
    });
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!waits[i]) first_.push_back(&nodes_[i]);
    }
  }
  void run() override {
    for (Node* node : first_) node->try_put({});
    flow_.wait_for_all();
  }

 private:
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;
  tbb::global_control limit_{tbb::global_control::max_allowed_parallelism, workers};
  tbb::flow::graph flow_;
  std::deque<Node> nodes_;
  std::vector<Node*> first_;
};
#endif

}  // namespace

std::unique_ptr<FreePlacement> taskflow([[maybe_unused]] const TaskGraph& graph,
                                        [[maybe_unused]] const std::function<void()>& work) {
#ifdef UNLATCH_BENCH_TASKFLOW
  return std::make_unique<Taskflow>(graph, work);
#else
  return nullptr;
#endif
}

std::unique_ptr<FreePlacement> one_tbb([[maybe_unused]] const TaskGraph& graph,
                                       [[maybe_unused]] const std::function<void()>& work) {
#ifdef UNLATCH_BENCH_TBB
  return std::make_unique<OneTbb>(graph, work);
#else
  return nullptr;
#endif
}

}  // namespace unlatch::bench
