#include "schedules/races.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/registry.h"

namespace unlatch {
namespace {

TEST(Races, FindsNoneInTheCatalogue) {
  for (const std::string schedule :
       {"bp", "gpipe:recompute=always", "1f1b", "ddg", "ddg:weights=in_place", "fr:form=mailbox",
        "fdg", "fdg:order=bf,form=queue", "dsp", "dsp:form=lockstep", "dsp:staleness=6/3/0"}) {
    for (const bool drain : {true, false}) {
      const Shape shape{.stages = 3, .micro_batches = 3, .batches = 11, .drain = drain};
      const TaskGraph graph = ScheduleSpec::parse(schedule).make(shape).build();
      EXPECT_THAT(races(graph), testing::IsEmpty()) << schedule;
    }
  }
}

/// A stage whose R runs on the second lane while U may overwrite the weights it reads.
TaskGraph::Parts two_lanes() {
  TaskGraph::Parts parts;
  parts.schedule = "hand-made";
  parts.shape = {.stages = 1, .batches = 2};
  parts.lanes = {{Rank{0}, Engine::compute, {}}, {Rank{0}, Engine::recompute, {}}};
  parts.rank_of_stage = {Rank{0}};
  const auto task = [](Op op, int i, int lane) {
    Task t;
    t.op = op;
    t.micro_batch = {i};
    t.lane = static_cast<std::uint16_t>(lane);
    return t;
  };
  parts.tasks = {task(Op::forward, 0, 0), task(Op::update, 0, 0), task(Op::recompute, 0, 1)};
  parts.tasks[0].flags = replayed;
  parts.first_edge = {0, 0, 1, 2};
  parts.edges = {{TaskId{0}, EdgeKind::order}, {TaskId{0}, EdgeKind::local}};
  return parts;
}

TEST(Races, NamesBothTasksAndWhatTheyTouch) {
  const auto found = races(TaskGraph(two_lanes()));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rule, "race");
  EXPECT_THAT(found[0].tasks, testing::ElementsAre("0U0", "0R0"));
  EXPECT_THAT(found[0].message, testing::HasSubstr("weights of stage 0"));
}

TEST(Races, AcceptsTheSameTasksOnceOrdered) {
  TaskGraph::Parts parts = two_lanes();
  parts.edges[1] = {TaskId{1}, EdgeKind::version};
  EXPECT_THAT(races(TaskGraph(parts)), testing::IsEmpty());
}

TEST(Races, NeedAWriter) {  // F and R beside each other both read the weights
  TaskGraph::Parts parts = two_lanes();
  parts.tasks[1].op = Op::forward;
  parts.tasks[1].micro_batch = {1};
  parts.tasks[1].flags = replayed;
  EXPECT_THAT(races(TaskGraph(parts)), testing::IsEmpty());
}

TEST(Races, StartingBesideATaskIsNotBeingBehindIt) {
  TaskGraph::Parts parts = two_lanes();
  parts.edges[1] = {TaskId{0}, EdgeKind::beside};  // R reads the input that F still writes
  EXPECT_THAT(races(TaskGraph(parts)), testing::Not(testing::IsEmpty()));
}

}  // namespace
}  // namespace unlatch
