// The worked examples of the synchronous pipeline schedules, P=4: what each rank runs, in order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "schedules/registry.h"

namespace unlatch {
namespace {

struct Example {
  const char* name;
  const char* schedule;
  int chunks;
  int micro_batches;
  std::vector<std::string> rows;  ///< by rank, the cells of its tasks
};

/// The F, B, I and W of one rank's program; "(0F7;7B3)OVERLAP_F_B" is a block of two.
std::string cells(const Program& program) {
  std::vector<std::string> cells;
  for (const Program::Item& item : program.items()) {
    if (item.op == Op::update || is_hidden(item.op)) continue;
    const std::string cell = label(item.op, item.stage, item.micro_batch);
    if (item.ends_block) {
      cells.back() = fmt::format("({};{})OVERLAP_F_B", cells.back(), cell);
    } else {
      cells.push_back(cell);
    }
  }
  return fmt::format("{}", fmt::join(cells, ","));
}

class WorkedExample : public testing::TestWithParam<Example> {};

TEST_P(WorkedExample, ComesOutTokenForToken) {
  const Example& example = GetParam();
  const Shape shape{.stages = 4 * example.chunks,
                    .chunks = example.chunks,
                    .micro_batches = example.micro_batches};
  const Schedule schedule = ScheduleSpec::parse(example.schedule).make(shape);
  EXPECT_TRUE(schedule.violations().empty());
  ASSERT_EQ(schedule.programs().size(), example.rows.size());
  for (std::size_t r = 0; r < example.rows.size(); ++r) {
    EXPECT_EQ(cells(schedule.programs()[r]), example.rows[r]) << "rank " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Modern, WorkedExample,
    testing::Values(
        Example{"GPipe",
                "gpipe:backward=ascending",
                1,
                8,
                {
                    "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0B0,0B1,0B2,0B3,0B4,0B5,0B6,0B7",
                    "1F0,1F1,1F2,1F3,1F4,1F5,1F6,1F7,1B0,1B1,1B2,1B3,1B4,1B5,1B6,1B7",
                    "2F0,2F1,2F2,2F3,2F4,2F5,2F6,2F7,2B0,2B1,2B2,2B3,2B4,2B5,2B6,2B7",
                    "3F0,3F1,3F2,3F3,3F4,3F5,3F6,3F7,3B0,3B1,3B2,3B3,3B4,3B5,3B6,3B7",
                }},
        Example{"OneForwardOneBackward",
                "1f1b",
                1,
                8,
                {
                    "0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0F6,0B3,0F7,0B4,0B5,0B6,0B7",
                    "1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1F6,1B4,1F7,1B5,1B6,1B7",
                    "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2F5,2B4,2F6,2B5,2F7,2B6,2B7",
                    "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5,3F6,3B6,3F7,3B7",
                }},
        Example{"Interleaved",
                "interleaved-1f1b",
                2,
                8,
                {
                    "0F0,0F1,0F2,0F3,4F0,4F1,4F2,4F3,0F4,0F5,0F6,4B0,0F7,4B1,4F4,4B2,4F5,4B3,4F6,"
                    "0B0,4F7,0B1,0B2,0B3,4B4,4B5,4B6,4B7,0B4,0B5,0B6,0B7",
                    "1F0,1F1,1F2,1F3,5F0,5F1,5F2,5F3,1F4,5B0,1F5,5B1,1F6,5B2,1F7,5B3,5F4,1B0,5F5,"
                    "1B1,5F6,1B2,5F7,1B3,5B4,5B5,5B6,5B7,1B4,1B5,1B6,1B7",
                    "2F0,2F1,2F2,2F3,6F0,6F1,6F2,6B0,6F3,6B1,2F4,6B2,2F5,6B3,2F6,2B0,2F7,2B1,6F4,"
                    "2B2,6F5,2B3,6F6,6B4,6F7,6B5,6B6,6B7,2B4,2B5,2B6,2B7",
                    "3F0,3F1,3F2,3F3,7F0,7B0,7F1,7B1,7F2,7B2,7F3,7B3,3F4,3B0,3F5,3B1,3F6,3B2,3F7,"
                    "3B3,7F4,7B4,7F5,7B5,7F6,7B6,7F7,7B7,3B4,3B5,3B6,3B7",
                }},
        Example{"LoopedBfs",
                "looped-bfs",
                2,
                8,
                {
                    "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,4F0,4F1,4F2,4F3,4F4,4F5,4F6,4F7,4B7,4B6,4B5,"
                    "4B4,4B3,4B2,4B1,4B0,0B7,0B6,0B5,0B4,0B3,0B2,0B1,0B0",
                    "1F0,1F1,1F2,1F3,1F4,1F5,1F6,1F7,5F0,5F1,5F2,5F3,5F4,5F5,5F6,5F7,5B7,5B6,5B5,"
                    "5B4,5B3,5B2,5B1,5B0,1B7,1B6,1B5,1B4,1B3,1B2,1B1,1B0",
                    "2F0,2F1,2F2,2F3,2F4,2F5,2F6,2F7,6F0,6F1,6F2,6F3,6F4,6F5,6F6,6F7,6B7,6B6,6B5,"
                    "6B4,6B3,6B2,6B1,6B0,2B7,2B6,2B5,2B4,2B3,2B2,2B1,2B0",
                    "3F0,3F1,3F2,3F3,3F4,3F5,3F6,3F7,7F0,7F1,7F2,7F3,7F4,7F5,7F6,7F7,7B7,7B6,7B5,"
                    "7B4,7B3,7B2,7B1,7B0,3B7,3B6,3B5,3B4,3B3,3B2,3B1,3B0",
                }},
        Example{"ZbH1",
                "zb-h1",
                1,
                8,
                {
                    "0F0,0F1,0F2,0F3,0I0,0W0,0F4,0I1,0W1,0F5,0I2,0W2,0F6,0I3,0W3,0F7,0I4,0W4,0I5,"
                    "0W5,0I6,0W6,0I7,0W7",
                    "1F0,1F1,1F2,1I0,1F3,1I1,1W0,1F4,1I2,1W1,1F5,1I3,1W2,1F6,1I4,1W3,1F7,1I5,1W4,"
                    "1I6,1W5,1I7,1W6,1W7",
                    "2F0,2F1,2I0,2F2,2I1,2F3,2I2,2W0,2F4,2I3,2W1,2F5,2I4,2W2,2F6,2I5,2W3,2F7,2I6,"
                    "2W4,2I7,2W5,2W6,2W7",
                    "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3W0,3F4,3I4,3W1,3F5,3I5,3W2,3F6,3I6,3W3,3F7,"
                    "3I7,3W4,3W5,3W6,3W7",
                }},
        Example{"ZbH2",
                "zb-h2",
                1,
                8,
                {
                    "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0I0,0W0,0F7,0I1,0W1,0I2,0W2,0I3,0W3,0I4,0W4,0I5,"
                    "0W5,0I6,0W6,0I7,0W7",
                    "1F0,1F1,1F2,1F3,1F4,1I0,1F5,1I1,1F6,1I2,1W0,1F7,1I3,1W1,1I4,1W2,1I5,1W3,1I6,"
                    "1W4,1I7,1W5,1W6,1W7",
                    "2F0,2F1,2F2,2I0,2F3,2I1,2F4,2I2,2F5,2I3,2F6,2I4,2W0,2F7,2I5,2W1,2I6,2W2,2I7,"
                    "2W3,2W4,2W5,2W6,2W7",
                    "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3F4,3I4,3F5,3I5,3F6,3I6,3W0,3F7,3I7,3W1,3W2,"
                    "3W3,3W4,3W5,3W6,3W7",
                }},
        Example{"InterleavedZb",
                "interleaved-zb",
                2,
                8,
                {
                    "0F0,0F1,0F2,0F3,4F0,4F1,4F2,4F3,4I0,4W0,0F4,4I1,4W1,0F5,4I2,4W2,0F6,4I3,4W3,"
                    "0F7,0I0,0W0,4F4,0I1,0W1,4F5,0I2,0W2,4F6,0I3,0W3,4F7,4I4,4W4,4I5,4W5,4I6,4W6,"
                    "4I7,4W7,0I4,0W4,0I5,0W5,0I6,0W6,0I7,0W7",
                    "1F0,1F1,1F2,1F3,5F0,5F1,5F2,5I0,5F3,5I1,5W0,1F4,5I2,5W1,1F5,5I3,5W2,1F6,1I0,"
                    "5W3,1F7,1I1,1W0,5F4,1I2,1W1,5F5,1I3,1W2,5F6,5I4,1W3,5F7,5I5,5W4,5I6,5W5,5I7,"
                    "5W6,1I4,5W7,1I5,1W4,1I6,1W5,1I7,1W6,1W7",
                    "2F0,2F1,2F2,2F3,6F0,6F1,6I0,6F2,6I1,6F3,6I2,6W0,2F4,6I3,6W1,2F5,2I0,6W2,2F6,"
                    "2I1,6W3,2F7,2I2,2W0,6F4,2I3,2W1,6F5,6I4,2W2,6F6,6I5,2W3,6F7,6I6,6W4,6I7,6W5,"
                    "2I4,6W6,2I5,6W7,2I6,2W4,2I7,2W5,2W6,2W7",
                    "3F0,3F1,3F2,3F3,7F0,7I0,7F1,7I1,7F2,7I2,7F3,7I3,7W0,3F4,3I0,7W1,3F5,3I1,7W2,"
                    "3F6,3I2,7W3,3F7,3I3,3W0,7F4,7I4,3W1,7F5,7I5,3W2,7F6,7I6,3W3,7F7,7I7,7W4,3I4,"
                    "7W5,3I5,7W6,3I6,7W7,3I7,3W4,3W5,3W6,3W7",
                }},
        Example{"ZbV",
                "zb-v",
                2,
                8,
                {
                    "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,7F1,7I1,7W1,7F2,7I2,7W2,7F3,7I3,7W3,"
                    "0F7,0I0,0W0,7F4,7I4,7W4,0I1,0W1,7F5,7I5,7W5,0I2,0W2,7F6,7I6,7W6,0I3,0W3,7F7,"
                    "7I7,7W7,0I4,0W4,0I5,0W5,0I6,0W6,0I7,0W7",
                    "1F0,1F1,1F2,1F3,1F4,6F0,1F5,6F1,6I0,6W0,6F2,6I1,6W1,6F3,6I2,6W2,1F6,1I0,1W0,"
                    "6F4,6I3,6W3,1F7,1I1,1W1,6F5,6I4,6W4,1I2,1W2,6F6,6I5,6W5,1I3,1W3,6F7,6I6,6W6,"
                    "1I4,6I7,1I5,1W4,1I6,1W5,1I7,1W6,6W7,1W7",
                    "2F0,2F1,2F2,5F0,2F3,5F1,2F4,5F2,5I0,5W0,5F3,5I1,5W1,2F5,2I0,2W0,5F4,5I2,5W2,"
                    "2F6,2I1,2W1,5F5,5I3,5W3,2F7,2I2,2W2,5F6,5I4,5W4,2I3,2W3,5F7,5I5,5W5,2I4,5I6,"
                    "2I5,5I7,2I6,2W4,2I7,2W5,5W6,5W7,2W6,2W7",
                    "3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,4I0,4W0,3F4,3I0,3W0,4F4,4I1,4W1,3F5,3I1,3W1,"
                    "4F5,4I2,4W2,3F6,3I2,3W2,4F6,4I3,4W3,3F7,3I3,3W3,4F7,4I4,4W4,3I4,4I5,3I5,4I6,"
                    "3I6,4I7,3I7,3W4,4W5,4W6,4W7,3W5,3W6,3W7",
                }},
        Example{"DualPipeV",
                "dualpipev",
                2,
                8,
                {
                    "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,7F1,7I1,7W1,7F2,7I2,7W2,7F3,"
                    "(0F7;7B3)OVERLAP_F_B,(7F4;0B0)OVERLAP_F_B,7B4,(7F5;0B1)OVERLAP_F_B,7B5,"
                    "(7F6;0B2)OVERLAP_F_B,7B6,(7F7;0B3)OVERLAP_F_B,7B7,0I4,0W4,0I5,0W5,0I6,0W6,"
                    "0I7,0W7",
                    "1F0,1F1,1F2,1F3,1F4,6F0,1F5,6F1,6I0,6W0,6F2,6I1,6W1,6F3,"
                    "(1F6;6B2)OVERLAP_F_B,(6F4;1B0)OVERLAP_F_B,(1F7;6B3)OVERLAP_F_B,"
                    "(6F5;1B1)OVERLAP_F_B,6B4,(6F6;1B2)OVERLAP_F_B,6B5,(6F7;1B3)OVERLAP_F_B,6B6,"
                    "1B4,6I7,1I5,6W7,1I6,1W5,1I7,1W6,1W7",
                    "2F0,2F1,2F2,5F0,2F3,5F1,2F4,5F2,5I0,5W0,5F3,(2F5;5B1)OVERLAP_F_B,"
                    "(5F4;2B0)OVERLAP_F_B,(2F6;5B2)OVERLAP_F_B,(5F5;2B1)OVERLAP_F_B,"
                    "(2F7;5B3)OVERLAP_F_B,(5F6;2B2)OVERLAP_F_B,5B4,(5F7;2B3)OVERLAP_F_B,5B5,2B4,"
                    "5B6,2I5,5I7,2I6,2W5,2I7,5W7,2W6,2W7",
                    "3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,3F4,4B0,(4F4;3B0)OVERLAP_F_B,"
                    "(3F5;4B1)OVERLAP_F_B,(4F5;3B1)OVERLAP_F_B,(3F6;4B2)OVERLAP_F_B,"
                    "(4F6;3B2)OVERLAP_F_B,(3F7;4B3)OVERLAP_F_B,(4F7;3B3)OVERLAP_F_B,4B4,3B4,4B5,"
                    "3B5,4I6,3I6,4I7,3I7,4W6,3W6,4W7,3W7",
                }},
        Example{"HanayoOneWave",
                "hanayo",
                2,
                8,
                {
                    "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7B0,7F1,7B1,7F2,7B2,7F3,7B3,7F4,7B4,0F7,0B0,"
                    "0B1,0B2,0B3,0B4,7F5,7B5,7F6,7B6,7F7,7B7,0B5,0B6,0B7",
                    "1F0,1F1,1F2,1F3,1F4,6F0,1F5,6F1,1F6,6B0,6F2,6B1,6F3,6B2,6F4,6B3,1B0,6B4,1B1,"
                    "1F7,1B2,1B3,1B4,6F5,6F6,6F7,6B5,6B6,6B7,1B5,1B6,1B7",
                    "2F0,2F1,2F2,5F0,2F3,5F1,2F4,5F2,2F5,5F3,5B0,5F4,5B1,2F6,2B0,5B2,2B1,5B3,2B2,"
                    "5B4,2B3,2F7,2B4,5F5,5F6,5F7,5B5,5B6,2B5,5B7,2B6,2B7",
                    "3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,3F4,4F4,3F5,4B0,3B0,4B1,3B1,4B2,3B2,4B3,3B3,"
                    "4B4,3B4,4F5,3F6,4F6,3F7,4F7,4B5,3B5,4B6,3B6,4B7,3B7",
                }},
        Example{"HanayoTwoWaves",
                "hanayo:waves=2",
                4,
                4,
                {
                    "0F0,0F1,0F2,0F3,7F0,8F0,7F1,8F1,7F2,8F2,7F3,8F3,15F0,15B0,15F1,15B1,15F2,"
                    "15B2,15F3,15B3,8B0,7B0,8B1,7B1,8B2,7B2,8B3,7B3,0B0,0B1,0B2,0B3",
                    "1F0,1F1,1F2,1F3,6F0,6F1,9F0,6F2,9F1,6F3,9F2,14F0,9F3,14F1,14B0,14F2,14B1,"
                    "14F3,14B2,14B3,9B0,9B1,6B0,9B2,6B1,9B3,6B2,1B0,6B3,1B1,1B2,1B3",
                    "2F0,2F1,2F2,5F0,2F3,5F1,5F2,10F0,5F3,10F1,13F0,10F2,13F1,10F3,13F2,13F3,"
                    "13B0,13B1,10B0,13B2,10B1,13B3,10B2,5B0,10B3,5B1,2B0,5B2,2B1,5B3,2B2,2B3",
                    "3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,11F0,12F0,11F1,12F1,11F2,12F2,11F3,12F3,"
                    "12B0,11B0,12B1,11B1,12B2,11B2,12B3,11B3,4B0,3B0,4B1,3B1,4B2,3B2,4B3,3B3",
                }}),
    [](const auto& example) { return std::string(example.param.name); });

}  // namespace
}  // namespace unlatch
