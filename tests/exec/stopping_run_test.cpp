// Runs that stop, are saved and go on in a fresh runner: nothing tells them from runs that did not.
#include "exec/stopping_run.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "exec/executor.h"
#include "exec/state_file.h"
#include "schedules/graph_parts.h"
#include "tests/exec/chain_problem.h"
#include "tests/exec/network_run.h"
#include "tests/support/variants.h"

namespace unlatch::exec {
namespace {

using testing_support::parts_that_run;
using testing_support::variants;

constexpr int batches = 5;

std::string saved(StageRunner& runner, models::TensorType precision) {
  StateWriter writer(precision);
  runner.visit_state(writer);
  std::ostringstream file;
  writer.write(file, {});
  return std::move(file).str();
}

void restore(const std::string& file, StageRunner& runner) {
  StateReader reader("saved", {file.begin(), file.end()});
  runner.visit_state(reader);
  reader.require_end();
}

/// What changes numbers only, which variants() leaves out.
std::vector<std::string> more_variants(std::string_view name) {
  if (name == "fdg") return {"fdg:shrink=0.5"};
  if (name == "pipedream") {
    return {"pipedream:weights=latest,rescale=4,correct=0.1", "pipedream:weights=predicted"};
  }
  if (name == "dni") return {"dni:conditional=yes,delta=2,synth_lr=0.3"};
  if (name == "ssgd") return {"ssgd:compression=topk,ratio=0.4,warmup=1,step=2"};
  if (name == "asgd") {
    return {"asgd:compensation=constant,lambda=0.2",
            "asgd:compensation=adaptive,lambda=0.2,decay=0.9"};
  }
  if (name == "ssd-sgd") {
    return {"ssd-sgd:delay=2,warmup=1", "ssd-sgd:delay=3,warmup=1,glu=b,local_decay=0.01"};
  }
  return {};
}

/// Of all variants, on one replica and on two, where they run on the stages at all.
std::vector<TaskGraph> graphs_of(const Method& method, int stages, int chunks) {
  std::vector<std::string> texts = variants(method, stages, chunks);
  for (const std::string& more : more_variants(method.name)) texts.push_back(more);
  std::vector<TaskGraph> graphs;
  for (const std::string& text : texts) {
    for (const int replicas : {1, 2}) {
      const ScheduleSpec spec = ScheduleSpec::parse(text);
      Shape shape{.stages = stages, .chunks = chunks, .batches = batches, .replicas = replicas};
      shape.micro_batches = parts_that_run(spec, shape, {2, 4, 1});
      if (shape.micro_batches == 0) continue;
      TaskGraph graph = spec.make(shape).build();
      const GradientSource source = graph.learning().local_gradients.source;
      const bool has_own_heads =
          source == GradientSource::local_head || source == GradientSource::synthesiser;
      if (!has_own_heads || graph.shape().copies == 1) graphs.push_back(std::move(graph));
    }
  }
  return graphs;
}

std::vector<TaskGraph> graphs_of(const Method& method) {
  const int chunks = method.chunks.usual;
  std::vector<TaskGraph> graphs = graphs_of(method, chunks == 1 ? 3 : 2 * chunks, chunks);
  return graphs.empty() ? graphs_of(method, 2 * chunks, chunks) : graphs;
}

ChainProblem problem_with_momentum(const TaskGraph& graph) {
  ChainProblem problem = problem_of(graph);
  const bool gathers = graph.learning().agreement.compression.ratio < 1;
  problem.optimizer = models::OptimizerSpec::parse(gathers ? "sgd" : "nesterov:momentum=0.9");
  return problem;
}

/// Count and bytes of each kind on each rank, at this moment.
std::vector<std::pair<int, std::int64_t>> kept_now(const TaskGraph& graph, StageRunner& runner) {
  std::vector<std::pair<int, std::int64_t>> all;
  for (const Rank r : up_to<Rank>(graph.ranks())) {
    for (const auto& amount : runner.kept().of(r).now.amounts) {
      all.emplace_back(amount.count, amount.bytes);
    }
  }
  return all;
}

class StoppingRunOf : public testing::TestWithParam<std::string> {};

TEST_P(StoppingRunOf, LeavesWhatARunWithoutStopsLeaves) {
  const std::vector<TaskGraph> graphs = graphs_of(find_method(GetParam()));
  ASSERT_FALSE(graphs.empty());
  for (const TaskGraph& graph : graphs) {
    SCOPED_TRACE(graph.schedule());
    const ChainProblem problem = problem_with_momentum(graph);
    const ChainResult whole = run_chain(graph, problem);
    ChainRun stopping(graph, problem);
    std::map<int, std::string> files;
    run_with_stops(graph, stopping.runner(), {.workers = 2},
                   {.every = 1, .at_stop = [&](int done) {
                      files[done] = saved(stopping.runner(), models::TensorType::f64);
                    }});
    EXPECT_EQ(stopping.result().final, whole.final);
    EXPECT_EQ(stopping.result().losses, whole.losses);
    EXPECT_EQ(stopping.result().weights_by_update, whole.weights_by_update);
    EXPECT_FALSE(files.empty());
    for (const auto& [done, file] : files) {
      SCOPED_TRACE(done);
      ChainRun resumed(graph, problem);
      restore(file, resumed.runner());
      ASSERT_EQ(saved(resumed.runner(), models::TensorType::f64), file);
      run_with_stops(graph, resumed.runner(), {.workers = 1}, {.done = done});
      const ChainResult result = resumed.result();
      ASSERT_EQ(result.final, whole.final);
      ASSERT_EQ(result.heads, whole.heads);
      ASSERT_EQ(kept_now(graph, resumed.runner()), kept_now(graph, stopping.runner()));
      for (const TaskId id : tasks_after(graph, done)) {
        const Task& task = graph.task(id);
        if (task.op != Op::forward || !graph.shape().is_last(task.stage)) continue;
        ASSERT_EQ(result.losses[task.micro_batch.value], whole.losses[task.micro_batch.value]);
      }
    }
  }
}

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const Method& method : methods()) names.emplace_back(method.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(EverySchedule, StoppingRunOf, testing::ValuesIn(method_names()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(StoppingRun, RestoresTheStateOfEveryOptimizer) {
  const TaskGraph graph =
      ScheduleSpec::parse("fdg").make({.stages = 3, .batches = batches}).build();
  for (const std::string_view name : models::optimizer_names()) {
    SCOPED_TRACE(name);
    ChainProblem problem = problem_of(graph);
    problem.optimizer = models::OptimizerSpec::parse(name);
    const ChainResult whole = run_chain(graph, problem);
    ChainRun stopping(graph, problem), resumed(graph, problem);
    std::string file;
    run_with_stops(graph, stopping.runner(), {.workers = 1},
                   {.every = 3, .at_stop = [&](int) {
                      file = saved(stopping.runner(), models::TensorType::f64);
                    }});
    restore(file, resumed.runner());
    run_with_stops(graph, resumed.runner(), {.workers = 1}, {.done = 3});
    EXPECT_EQ(resumed.result().final, whole.final);
  }
}

/// Convolutions, pooling, batch norms and residual blocks, each with tensors of its own in flight.
TEST(StoppingRun, RestoresNetworksBitForBit) {
  const std::string resnet = "resnet20:input=data,width=4";
  const std::string tied = "transformer:layers=1,width=8,heads=2,sequence=8,tied=yes";
  for (const NetworkRun& run : std::vector<NetworkRun>{
           {.schedule = "fdg", .model = resnet, .stages = 3},
           {.schedule = "zb-h1", .model = resnet, .stages = 2, .micro_batches = 4},
           {.schedule = "dsp", .stages = 3},
           {.schedule = "pipedream", .stages = 3},
           {.schedule = "interleaved-1f1b", .stages = 4, .chunks = 2, .micro_batches = 4},
           {.schedule = "dgl:mode=async,buffer=2", .stages = 3},
           {.schedule = "dni:conditional=yes,delta=2", .stages = 3},
           {.schedule = "dfa", .stages = 3},
           {.schedule = "asgd:compensation=adaptive,lambda=0.1", .model = resnet, .replicas = 2},
           {.schedule = "ssd-sgd:delay=2,warmup=1", .replicas = 2},
           {.schedule = "ssgd:compression=topk,ratio=0.1", .replicas = 2, .optimizer = "sgd"},
           {.schedule = "1f1b", .model = tied, .data = "text", .stages = 3, .micro_batches = 4},
           {.schedule = "ssgd", .model = tied, .data = "text", .stages = 2, .replicas = 2}}) {
    SCOPED_TRACE(run.schedule);
    NetworkRun four = run;
    four.batches = 4;
    Network whole(four);
    std::string file;
    run_with_stops(whole.graph(), whole.runner(), {.workers = 2},
                   {.every = 2, .at_stop = [&](int) {
                      file = saved(whole.runner(), models::TensorType::f32);
                    }});
    Network never_stopped(four), resumed(four);
    CpuBackend backend(never_stopped.graph(), never_stopped.runner());
    exec::run(never_stopped.graph(), backend);
    restore(file, resumed.runner());
    EXPECT_EQ(saved(resumed.runner(), models::TensorType::f32), file);
    run_with_stops(resumed.graph(), resumed.runner(), {.workers = 2}, {.done = 2});
    for (const Network* other : {&whole, &resumed}) {
      EXPECT_EQ(other->weights(), never_stopped.weights());
      EXPECT_EQ(other->statistics(), never_stopped.statistics());
      EXPECT_EQ(other->head_parameters(), never_stopped.head_parameters());
    }
  }
}

/// The tasks before a stop wait for nothing behind it, and hold all work of the batches before it.
TEST(StoppingRun, StopsWhereTheBatchesBeforeAreOver) {
  for (const Method& method : methods()) {
    for (const TaskGraph& graph : graphs_of(method)) {
      SCOPED_TRACE(graph.schedule());
      const std::vector<int> needed = first_batches_that_need(graph);
      for (const TaskId id : graph.ids()) {
        if (is_work(graph.task(id).op)) {
          ASSERT_LE(needed[id.value], batch_of(graph, graph.task(id)));
        }
        for (const Edge edge : graph.edges_into(id)) {
          ASSERT_LE(needed[edge.from().value], needed[id.value]);
        }
      }
    }
  }
}

/// Between two batches of a schedule with a flush nothing is in flight: the batch before is whole,
/// the next one has not begun.
TEST(StoppingRun, StopsBetweenTheBatchesOfASynchronousSchedule) {
  for (const char* name : {"bp", "gpipe", "1f1b", "zb-h1", "dualpipev"}) {
    const TaskGraph graph = graphs_of(find_method(name)).front();
    const std::vector<int> needed = first_batches_that_need(graph);
    for (const TaskId id : graph.ids()) {
      const Task& task = graph.task(id);
      if (!is_work(task.op)) continue;
      EXPECT_EQ(needed[id.value], batch_of(graph, task)) << name;
    }
  }
}

}  // namespace
}  // namespace unlatch::exec
