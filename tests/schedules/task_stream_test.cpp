#include "schedules/task_stream.h"

#include <gtest/gtest.h>

#include "schedules/registry.h"
#include "tests/support/variants.h"

namespace unlatch {
namespace {

Links all_links(const Shape& shape) {
  std::vector<bool> all(static_cast<std::size_t>(shape.stages) - 1, true);
  if (shape.stages > 2) all[1] = false;
  return {all, all};
}

/// The tasks as a graph holds them, numbers used again put back into ids.
void expect_streams(const Schedule& schedule, const Links& links, int first_length) {
  const TaskGraph graph = with_transfers(schedule.build(), links);
  std::vector<TaskId> owner;  // of each number, by now
  TaskId id{0};
  int wrong = 0;
  const auto take = [&](const StreamedTask& streamed) {
    if (static_cast<std::size_t>(streamed.number) >= owner.size()) {
      owner.resize(static_cast<std::size_t>(streamed.number) + 1);
    }
    Task task = streamed.task;
    task.lane = graph.task(id).lane;
    bool same = task == graph.task(id) && streamed.rank == graph.rank(task) &&
                streamed.waits_for.size() == graph.edges_into(id).size();
    for (std::size_t e = 0; same && e < streamed.waits_for.size(); ++e) {
      const Edge edge = streamed.waits_for[e];
      same = Edge(owner[edge.from().value], edge.kind()) == graph.edges_into(id)[e];
    }
    wrong += same ? 0 : 1;
    owner[streamed.number] = id++;
  };
  TaskStream(schedule, links, first_length)
      .run(
          [&] {
            id = {0};
            wrong = 0;
          },
          take);
  EXPECT_EQ(id.value, graph.size());
  EXPECT_EQ(wrong, 0);
}

/// However short the line is that it first tries, so that tasks leave it too early and it starts
/// anew.
TEST(TaskStream, GivesTheTasksOfTheGraph) {
  for (const Method& method : methods()) {
    const int chunks = std::max(method.chunks.usual, method.chunks.least);
    for (const std::string& text : testing_support::variants(method, 4 * chunks, chunks)) {
      const ScheduleSpec spec = ScheduleSpec::parse(text);
      for (const auto& [micro_batches, batches] : {std::pair(8, 6), {1, 40}, {90, 2}}) {
        for (const bool drain : {true, false}) {
          const Shape shape{.stages = 4 * chunks,
                            .chunks = chunks,
                            .micro_batches = micro_batches,
                            .batches = batches,
                            .drain = drain};
          if (!testing_support::runs(spec, shape)) continue;
          if (spec.method().name.starts_with("zb-auto") && micro_batches > 8) continue;  // slow
          SCOPED_TRACE(
              fmt::format("{} M={} batches={} drain={}", text, micro_batches, batches, drain));
          const Schedule schedule = spec.make(shape);
          for (const int first_length : {1, 50}) {
            expect_streams(schedule, all_links(schedule.shape()), first_length);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(TaskStream, JoinsCopies) {
  for (const char* text : {"ssgd", "local-sgd:steps=2", "ssd-sgd:warmup=2,delay=3"}) {
    SCOPED_TRACE(text);
    const Schedule schedule = ScheduleSpec::parse(text).make(
        {.stages = 3, .micro_batches = 2, .batches = 70, .replicas = 3});
    for (const int first_length : {1, 100}) expect_streams(schedule, {}, first_length);
  }
}

}  // namespace
}  // namespace unlatch
