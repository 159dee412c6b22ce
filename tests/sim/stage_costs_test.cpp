// Stage costs: defaults and contradictions of the cost flags.
#include "sim/stage_costs.h"

#include <gmock/gmock.h>

#include "schedules/error.h"
#include "tests/sim/support.h"

namespace unlatch::sim {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string error_of(const CostSettings& settings, int stages) {
  try {
    stage_times(settings, stages);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(StageCosts, FillInTheContractsDefaults) {
  const StageTimes times = stage_times({}, 3);
  EXPECT_THAT(times.forward, ElementsAre(ms(1), ms(1), ms(1)));
  EXPECT_THAT(times.backward, Each(ms(2)));
  EXPECT_THAT(times.backward_input, Each(ms(1)));
  EXPECT_THAT(times.backward_weight, Each(ms(1)));
  EXPECT_THAT(times.recompute, Each(ms(1)));
  EXPECT_THAT(times.update, Each(ms(0)));
  EXPECT_THAT(times.activation_transfer, ElementsAre(ms(0), ms(0)));
  EXPECT_THAT(times.gradient_transfer, ElementsAre(ms(0), ms(0)));
  EXPECT_THAT(times.overlap, Each(1.0));
}

TEST(StageCosts, DeriveBackwardAndRecomputeFromTheForwardOfTheirStage) {
  const StageTimes times = stage_times({.forward = "1,3"}, 2);
  EXPECT_THAT(times.backward, ElementsAre(ms(2), ms(6)));
  EXPECT_THAT(times.recompute, ElementsAre(ms(1), ms(3)));
}

TEST(StageCosts, SplitAnOddBackwardWithoutLosingANanosecond) {
  const StageTimes times = stage_times({.backward = "7ns"}, 1);
  EXPECT_EQ(times.backward_input[0] + times.backward_weight[0], nanoseconds(7));
}

TEST(StageCosts, AddInputAndWeightGradientUp) {
  EXPECT_THAT(stage_times({.input_grad = "3", .weight_grad = "4"}, 2).backward, Each(ms(7)));
  EXPECT_THAT(stage_times({.backward = "7", .input_grad = "3", .weight_grad = "4"}, 2).backward,
              Each(ms(7)));
  EXPECT_THAT(stage_times({.backward = "7", .input_grad = "3"}, 2).backward_weight, Each(ms(4)));
  EXPECT_THAT(stage_times({.weight_grad = "0.5"}, 2).backward_input, Each(ms(1.5)));
}

TEST(StageCosts, RefuseABackwardThatDisagreesWithItsHalves) {
  EXPECT_THAT(error_of({.backward = "2", .input_grad = "1", .weight_grad = "2"}, 2),
              AllOf(HasSubstr("--backward 2 ms"), HasSubstr("--input-grad 1 ms"),
                    HasSubstr("--weight-grad 2 ms"), HasSubstr("3 ms"), HasSubstr("B = I + W")));
  EXPECT_THAT(error_of({.input_grad = "3"}, 2),
              AllOf(HasSubstr("--input-grad 3 ms"), HasSubstr("2 ms")));
}

TEST(StageCosts, RefuseListsOfAnotherLength) {
  EXPECT_THAT(
      error_of({.forward = "1,5"}, 4),
      AllOf(HasSubstr("--forward '1,5'"), HasSubstr("or 4, one for each stage"), HasSubstr("dot")));
  EXPECT_THAT(error_of({.transfer = "1,2,3,4"}, 4),
              AllOf(HasSubstr("--transfer"), HasSubstr("or 3, one for each boundary")));
  EXPECT_THAT(error_of({.overlap = "2"}, 4), HasSubstr("--overlap"));
}

TEST(StageCosts, RefuseATransferBesideItsDirections) {
  EXPECT_THAT(error_of({.transfer = "1", .gradient_transfer = "2"}, 2),
              AllOf(HasSubstr("--transfer '1'"), HasSubstr("--gradient-transfer")));
}

TEST(StageCosts, GiveEachDirectionOfABoundaryToItsSender) {
  const StageCosts costs = costs_of({.activation_transfer = "1,0", .gradient_transfer = "0,4"}, 3);
  Task task;
  task.op = Op::send_forward;
  task.stage = {0};
  EXPECT_EQ(costs.duration(task), ms(1));
  task.op = Op::send_backward;
  task.stage = {2};
  EXPECT_EQ(costs.duration(task), ms(4));
  EXPECT_THAT(costs.links().activation, ElementsAre(true, false));
  EXPECT_THAT(costs.links().gradient, ElementsAre(false, true));
  EXPECT_THAT(unit_costs(1).links().activation, IsEmpty());
}

TEST(StageCosts, CountHiddenTasksAsNothing) {
  Task task;
  for (const Op op :
       {Op::push_forward, Op::pop_forward, Op::push_backward, Op::pop_backward, Op::barrier}) {
    task.op = op;
    EXPECT_EQ(unit_costs(2).duration(task), ms(0));
  }
}

TEST(StageCosts, MultiplyABatchInOnePieceButNotItsUpdate) {
  const StageTimes times = stage_times({.update = "1", .transfer = "0.5"}, 2).in_one_piece(4);
  EXPECT_THAT(times.forward, Each(ms(4)));
  EXPECT_THAT(times.backward, Each(ms(8)));
  EXPECT_THAT(times.recompute, Each(ms(4)));
  EXPECT_THAT(times.activation_transfer, Each(ms(2)));
  EXPECT_THAT(times.gradient_transfer, Each(ms(2)));
  EXPECT_THAT(times.update, Each(ms(1)));
}

}  // namespace
}  // namespace unlatch::sim
