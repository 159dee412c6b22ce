// No time is asserted here: only what is measured, and that it ends.
#include "exec/handover.h"

#include <gtest/gtest.h>

#include "schedules/error.h"
#include "tests/exec/dnn_support.h"

namespace unlatch::exec {
namespace {

models::Dataset images() {
  std::vector<std::int32_t> labels;
  for (int s = 0; s < 16; ++s) labels.push_back(s % 4);
  return dataset_of({3, 8, 8}, 4, std::vector<std::uint8_t>(16 * 192, 100), labels, 255);
}

TEST(Handover, HasACostForEveryLayerAndNoneAtTheEndsOfTheModel) {
  const models::Model model = small_network();
  const models::Dataset data = images();
  HandoverProfiler profiler(model, data, {.micro_batch_size = 4, .samples = 5, .burst = 3});
  int bursts = 0;
  for (; profiler.wants_more(); ++bursts) profiler.measure();
  EXPECT_EQ(bursts, 2);
  const std::vector<HandoverCost> costs = profiler.costs();
  ASSERT_EQ(costs.size(), model.layers.size());
  for (const HandoverCost& cost : costs) {
    for (const double ns :
         {cost.forward_in, cost.forward_out, cost.backward_in, cost.backward_out}) {
      EXPECT_GE(ns, 0);
    }
  }
  EXPECT_EQ(costs.front().forward_in, 0);
  EXPECT_EQ(costs.front().backward_out, 0);
  EXPECT_EQ(costs.back().forward_out, 0);
  EXPECT_EQ(costs.back().backward_in, 0);
}

TEST(Handover, StopsWhenCancelled) {
  int asked = 0;
  const models::Dataset data = images();
  HandoverProfiler profiler(small_network(), data, {.micro_batch_size = 4, .cancelled = [&asked] {
                                                      return ++asked == 5;
                                                    }});
  EXPECT_THROW(profiler.measure(), RunError);
}

}  // namespace
}  // namespace unlatch::exec
