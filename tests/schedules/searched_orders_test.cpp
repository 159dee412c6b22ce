// The orders that a search finds: its worked examples (P=4, M=8), its limits, what it refuses.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "schedules/error.h"
#include "schedules/registry.h"

namespace unlatch {
namespace {

using testing::HasSubstr;

std::string cells(const Program& program) {
  std::string row;
  for (const Program::Item& item : program.items()) {
    if (item.op == Op::update) continue;
    row +=
        fmt::format("{}{}", row.empty() ? "" : ",", label(item.op, item.stage, item.micro_batch));
  }
  return row;
}

Schedule schedule_of(const std::string& spec, int ranks, int chunks, int micro_batches) {
  return ScheduleSpec::parse(spec).make(
      {.stages = ranks * chunks, .chunks = chunks, .micro_batches = micro_batches});
}

/// Most memory of a rank, in tapes; W keeps `share` of a tape that I gives back.
double most_held(const Program& program, double share) {
  int forwards = 0, inputs = 0, weights = 0;
  double most = 0;
  for (const Program::Item& item : program.items()) {
    forwards += item.op == Op::forward ? 1 : 0;
    inputs += item.op == Op::backward_input ? 1 : 0;
    weights += item.op == Op::backward_weight ? 1 : 0;
    most = std::max(most, forwards - inputs + share * (inputs - weights));
  }
  return most;
}

std::string message(const std::string& spec) {
  try {
    const ScheduleSpec parsed = ScheduleSpec::parse(spec);
    const int chunks = parsed.method().chunks.usual;
    parsed.options({.stages = chunks, .chunks = chunks});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Example {
  const char* name;
  const char* spec;
  int chunks;
  std::vector<std::string> rows;  ///< by rank
};

class SearchedExample : public testing::TestWithParam<Example> {};

TEST_P(SearchedExample, ComesOutTokenForToken) {
  const Schedule schedule = schedule_of(GetParam().spec, 4, GetParam().chunks, 8);
  EXPECT_TRUE(schedule.violations().empty());
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(cells(schedule.programs()[r]), GetParam().rows[r]) << "rank " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Searched, SearchedExample,
                         testing::Values(Example{"ZeroBubbleAuto",
                                                 "zb-auto:limit=2",
                                                 1,
                                                 {
                                                     "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0I0,0F7,0W0,0I1,"
                                                     "0W1,0I2,0W2,0I3,0W3,0I4,0W4,0I5,0W5,0I6,"
                                                     "0W6,0I7,0W7",
                                                     "1F0,1F1,1F2,1F3,1F4,1I0,1F5,1I1,1F6,1I2,1F7,"
                                                     "1I3,1W0,1I4,1W1,1I5,1W2,1I6,1W3,1I7,1W4,"
                                                     "1W5,1W6,1W7",
                                                     "2F0,2F1,2F2,2I0,2F3,2I1,2F4,2I2,2F5,2I3,2F6,"
                                                     "2I4,2F7,2I5,2W0,2I6,2W1,2I7,2W2,2W3,2W4,"
                                                     "2W5,2W6,2W7",
                                                     "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3F4,3I4,3F5,"
                                                     "3I5,3F6,3I6,3F7,3I7,3W0,3W1,3W2,3W3,3W4,"
                                                     "3W5,3W6,3W7",
                                                 }},
                                         Example{"ZeroBubbleV",
                                                 "zb-v:order=search",
                                                 2,
                                                 {
                                                     "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,7F1,"
                                                     "7I1,7W1,7F2,7I2,7W2,7F3,7I3,7W3,0F7,0I0,0W0,"
                                                     "7F4,7I4,7W4,0I1,0W1,7F5,7I5,7W5,0I2,0W2,7F6,"
                                                     "7I6,7W6,0I3,0W3,7F7,7I7,0I4,7W7,0I5,0W4,0I6,"
                                                     "0W5,0I7,0W6,0W7",
                                                     "1F0,1F1,1F2,1F3,1F4,6F0,1F5,6F1,6I0,6W0,6F2,"
                                                     "6I1,6W1,6F3,6I2,6W2,1F6,1I0,1W0,6F4,6I3,6W3,"
                                                     "1F7,1I1,1W1,6F5,6I4,6W4,1I2,1W2,6F6,6I5,6W5,"
                                                     "1I3,1W3,6F7,6I6,1I4,6I7,1I5,6W6,1I6,1W4,1I7,"
                                                     "6W7,1W5,1W6,1W7",
                                                     "2F0,2F1,2F2,5F0,2F3,5F1,2F4,5F2,5I0,5W0,5F3,"
                                                     "5I1,5W1,2F5,2I0,2W0,5F4,5I2,5W2,2F6,2I1,2W1,"
                                                     "5F5,5I3,5W3,2F7,2I2,2W2,5F6,5I4,5W4,2I3,2W3,"
                                                     "5F7,5I5,2I4,5I6,2I5,5I7,2I6,5W5,2I7,2W4,5W6,"
                                                     "2W5,5W7,2W6,2W7",
                                                     "3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,4I0,4W0,3F4,"
                                                     "3I0,3W0,4F4,4I1,4W1,3F5,3I1,3W1,4F5,4I2,4W2,"
                                                     "3F6,3I2,3W2,4F6,4I3,4W3,3F7,3I3,3W3,4F7,4I4,"
                                                     "3I4,4I5,3I5,4I6,3I6,4I7,3I7,4W4,3W4,4W5,3W5,"
                                                     "4W6,3W6,4W7,3W7",
                                                 }},
                                         Example{"VHalf",
                                                 "v-half",
                                                 2,
                                                 {
                                                     "0F0,0F1,0F2,0F3,0F4,7F0,7I0,7W0,7F1,7I1,7W1,"
                                                     "7F2,0I0,7I2,7W2,7F3,0W0,0F5,0I1,7I3,7W3,"
                                                     "7F4,0W1,0F6,0I2,7I4,7W4,7F5,0W2,0F7,0I3,7I5,"
                                                     "7W5,7F6,7I6,7W6,0I4,0W3,0W4,7F7,7I7,0I5,"
                                                     "7W7,0I6,0W5,0W6,0I7,0W7",
                                                     "1F0,1F1,1F2,1F3,6F0,6F1,6I0,6W0,6F2,6I1,6W1,"
                                                     "1I0,1W0,1F4,6F3,6I2,6W2,1I1,1W1,1F5,6F4,"
                                                     "6I3,6W3,1I2,1W2,1F6,6F5,6I4,6W4,1I3,1F7,1W3,"
                                                     "6F6,6I5,6W5,1I4,6I6,6W6,6F7,1W4,1I5,6I7,"
                                                     "1I6,6W7,1W5,1W6,1I7,1W7",
                                                     "2F0,2F1,2F2,5F0,5F1,5F2,5I0,5W0,2F3,5I1,2I0,"
                                                     "5W1,2W0,5F3,2F4,2I1,5I2,5W2,5F4,2W1,2F5,"
                                                     "2I2,5I3,5W3,5F5,2W2,2F6,2I3,5I4,5W4,5F6,2W3,"
                                                     "2F7,2I4,5I5,5W5,5F7,5I6,2I5,5W6,2I6,5I7,"
                                                     "5W7,2W4,2I7,2W5,2W6,2W7",
                                                     "3F0,4F0,3F1,4F1,3F2,4F2,4I0,4W0,3I0,3W0,3F3,"
                                                     "4F3,4I1,4W1,3I1,3W1,3F4,4F4,4I2,4W2,3I2,"
                                                     "3W2,3F5,4F5,4I3,4W3,3I3,3F6,3W3,4F6,4I4,3I4,"
                                                     "4W4,3F7,3W4,4F7,4I5,3I5,4I6,3I6,4W5,4W6,"
                                                     "4I7,3I7,4W7,3W5,3W6,3W7",
                                                 }},
                                         Example{"VMin",
                                                 "v-min",
                                                 2,
                                                 {
                                                     "0F0,0F1,0F2,7F0,7I0,7W0,7F1,7I1,7W1,0I0,0W0,"
                                                     "0F3,7F2,7I2,0I1,7W2,0W1,0F4,7F3,7I3,0I2,"
                                                     "7W3,0W2,0F5,7F4,7I4,0I3,7W4,0W3,0F6,7F5,7I5,"
                                                     "0I4,7W5,0W4,0F7,7F6,7I6,0I5,7W6,0W5,7F7,"
                                                     "7I7,0I6,7W7,0W6,0I7,0W7",
                                                     "1F0,1F1,6F0,6F1,6I0,6W0,1F2,1I0,6I1,6W1,1W0,"
                                                     "6F2,1F3,1I1,6I2,6W2,1W1,6F3,1F4,1I2,6I3,"
                                                     "6W3,1W2,6F4,1F5,1I3,6I4,6W4,1W3,6F5,1F6,1I4,"
                                                     "6I5,6W5,1W4,6F6,1F7,1I5,6I6,6W6,1W5,6F7,"
                                                     "1I6,6I7,6W7,1W6,1I7,1W7",
                                                     "2F0,2F1,5F0,5F1,5I0,5W0,2F2,2I0,2W0,5I1,5F2,"
                                                     "5W1,2I1,2F3,2W1,5I2,5F3,5W2,2I2,2F4,2W2,"
                                                     "5I3,5F4,5W3,2I3,2F5,2W3,5I4,5F5,5W4,2I4,2F6,"
                                                     "2W4,5I5,5F6,5W5,2I5,2F7,2W5,5I6,5F7,5W6,"
                                                     "2I6,2W6,5I7,5W7,2I7,2W7",
                                                     "3F0,4F0,3F1,4F1,4I0,3I0,4W0,3W0,3F2,4F2,4I1,"
                                                     "3I1,4W1,3W1,3F3,4F3,4I2,3I2,4W2,3W2,3F4,"
                                                     "4F4,4I3,3I3,4W3,3W3,3F5,4F5,4I4,3I4,4W4,3W4,"
                                                     "3F6,4F6,4I5,3I5,4W5,3W5,3F7,4F7,4I6,3I6,"
                                                     "4W6,3W6,4I7,3I7,4W7,3W7",
                                                 }}),
                         [](const auto& example) { return std::string(example.param.name); });

TEST(ZeroBubbleAuto, KeepsItsMemoryLimitWhateverTheCosts) {
  for (const std::string times : {"1/1/1", "2/1/1", "1/2/1", "1/1/3", "3/1/1", "5/4/1", "1/3/2"}) {
    for (const double comm : {0.0, 0.5, 3.0, 10.0}) {
      for (const double memory : {0.0, 0.37, 1.0}) {
        for (const int limit : {1, 2}) {
          const std::string spec = fmt::format("zb-auto:limit={},times={},comm={},memory={}", limit,
                                               times, comm, memory);
          for (int ranks = 1; ranks <= 6; ++ranks) {
            for (const int m : {1, 2, 3, 5, 8, 13}) {
              SCOPED_TRACE(fmt::format("{} P={} M={}", spec, ranks, m));
              const Schedule schedule = schedule_of(spec, ranks, 1, m);
              EXPECT_TRUE(schedule.violations().empty());
              for (const Program& program : schedule.programs()) {
                EXPECT_LE(most_held(program, memory), limit * ranks + 1e-9);
              }
            }
          }
        }
      }
    }
  }
}

TEST(ZeroBubbleAuto, RunsOneForwardOneBackwardsWarmUpWithinItsMemory) {
  const Schedule schedule = schedule_of("zb-auto", 8, 1, 24);
  for (const Program& program : schedule.programs()) {
    const auto& items = program.items();
    const auto first_input = std::find_if(
        items.begin(), items.end(), [](const auto& item) { return item.op == Op::backward_input; });
    EXPECT_EQ(first_input - items.begin(), 8 - items.front().stage.value);
  }
}

TEST(ZeroBubbleAuto, SaysWhatItsKeysMayBe) {
  EXPECT_THAT(message("zb-auto:times=1/2"), HasSubstr("three whole numbers above 0"));
  EXPECT_THAT(message("zb-auto:times=1/0/1"), HasSubstr("not 1/0/1"));
  EXPECT_THAT(message("zb-auto:comm=-1"), HasSubstr("0 to 1e+06 times that of F, not -1"));
  EXPECT_THAT(message("zb-auto:comm=1e300"), HasSubstr("not 1e+300"));
  EXPECT_THAT(message("zb-auto:memory=1.5"), HasSubstr("0 to 1, not 1.5"));
  EXPECT_THAT(message("zb-auto:limit=3"), HasSubstr("limit='3' is not a value"));
}

TEST(ZeroBubbleV, KeepsItsMemoryLimitWhateverTheSearchAssumes) {
  for (const std::string times :
       {"1/1/1", "2/1/1", "1/2/1", "1/1/3", "3/1/1", "5/4/1", "1/3/2", "1/1/20", "20/1/1"}) {
    for (const double comm : {0.0, 0.5, 3.0, 100.0}) {
      const std::string spec = fmt::format("zb-v:order=search,times={},comm={}", times, comm);
      for (int ranks = 1; ranks <= 7; ++ranks) {
        for (const int m : {1, 2, 3, 4, 5, 8, 13}) {
          SCOPED_TRACE(fmt::format("{} P={} M={}", spec, ranks, m));
          const Schedule schedule = schedule_of(spec, ranks, 2, m);
          EXPECT_TRUE(schedule.violations().empty());
          for (const Program& program : schedule.programs()) {
            EXPECT_LE(most_held(program, 1), 2 * ranks);
          }
        }
      }
    }
  }
}

TEST(ZeroBubbleV, SaysWhatItsKeysMayBe) {
  EXPECT_THAT(message("zb-v:order=found"), HasSubstr("order='found' is not a value"));
  EXPECT_THAT(message("zb-v:order=search,times=1/2"), HasSubstr("three whole numbers above 0"));
  EXPECT_THAT(message("zb-v:order=search,times=1/0/1"), HasSubstr("not 1/0/1"));
  EXPECT_THAT(message("zb-v:order=search,comm=-1"), HasSubstr("times that of F, not -1"));
  EXPECT_THAT(message("zb-v:times=3/2/1"),
              HasSubstr("times=3/2/1 has no effect without order=search"));
  EXPECT_THAT(message("zb-v:comm=2"), HasSubstr("comm=2 has no effect without order=search"));
  EXPECT_EQ(message("zb-v:order=search,times=3/2/1,comm=2"), "no error");
}

TEST(VSchedules, HoldAtMostTheirTapesForEveryShape) {
  for (int ranks = 1; ranks <= 12; ++ranks) {
    for (int m = 1; m <= 3 * ranks; ++m) {
      SCOPED_TRACE(fmt::format("P={} M={}", ranks, m));
      const Schedule half = schedule_of("v-half", ranks, 2, m);
      const Schedule min = schedule_of("v-min", ranks, 2, m);
      EXPECT_TRUE(half.violations().empty());
      EXPECT_TRUE(min.violations().empty());
      for (int r = 0; r < ranks; ++r) {
        EXPECT_LE(most_held(half.programs()[r], 1), 2 * ((ranks + 2) / 2)) << "rank " << r;
        EXPECT_LE(most_held(min.programs()[r], 1), 2 * ((ranks + 4) / 3)) << "rank " << r;
      }
    }
  }
}

}  // namespace
}  // namespace unlatch
