// The CSV reader and writer: grammar, dialects, places, what spreadsheets do to a file.
#include "files/pipeline_csv.h"

#include <gmock/gmock.h>

#include <chrono>

#include "schedules/error.h"

namespace unlatch::files {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::vector<std::string>> labels(const ActionTable& table) {
  std::vector<std::vector<std::string>> rows;
  for (const ActionRow& row : table.rows) {
    auto& labels = rows.emplace_back();
    for (const Action& action : row) labels.push_back(label(action));
  }
  return rows;
}

std::vector<std::string> one_row(std::string_view text) {
  const PipelineCsv csv = parse_pipeline_csv(text);
  EXPECT_THAT(csv.problems, IsEmpty()) << text;
  return labels(csv.table).at(0);
}

Violation only_problem(std::string_view text) {
  const PipelineCsv csv = parse_pipeline_csv(text);
  EXPECT_EQ(csv.problems.size(), 1U) << text;
  return csv.problems.empty() ? Violation{} : csv.problems.front();
}

std::string refusal(std::string_view text) {
  try {
    parse_pipeline_csv(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(PipelineCsv, ReadsEveryActionType) {
  EXPECT_THAT(one_row("0F0,1I12,2W3,3B4,0SEND_F0,1RECV_F0,1SEND_B0,0RECV_B0,0UNSHARD,0RESHARD,"
                      "0REDUCE_GRAD,0WAIT_SEND_F0,1WAIT_SEND_B0,0WAIT_REDUCE_GRAD"),
              ElementsAre("0F0", "1I12", "2W3", "3B4", "0SEND_F0", "1RECV_F0", "1SEND_B0",
                          "0RECV_B0", "0UNSHARD", "0RESHARD", "0REDUCE_GRAD", "0WAIT_SEND_F0",
                          "1WAIT_SEND_B0", "0WAIT_REDUCE_GRAD"));
}

TEST(PipelineCsv, CountsIdleCellsAsColumns) {
  const PipelineCsv csv = parse_pipeline_csv("0F0,,,0B0\n,1F0, ,1B0,\n");
  EXPECT_EQ(csv.table.rows[0][1].column, 3);
  EXPECT_EQ(csv.table.rows[1][0].column, 1);
  EXPECT_EQ(csv.table.rows[1][1].column, 3);
}

TEST(PipelineCsv, ReadsActionsThatOverlap) {
  const PipelineCsv csv = parse_pipeline_csv("0F0,(0F1; 7B0)OVERLAP_F_B,0B0");
  EXPECT_THAT(csv.problems, IsEmpty());
  const ActionRow& row = csv.table.rows[0];
  EXPECT_THAT(labels(csv.table)[0], ElementsAre("0F0", "0F1", "7B0", "0B0"));
  EXPECT_EQ(row[1].overlap, Overlap::first);
  EXPECT_EQ(row[2].overlap, Overlap::next);
  EXPECT_EQ(row[2].column, 1);
  EXPECT_EQ(row[3].overlap, Overlap::none);
  EXPECT_EQ(pipeline_csv(csv.table), "0F0,(0F1;7B0)OVERLAP_F_B,0B0\r\n");
}

TEST(PipelineCsv, TellsTheDialectsApart) {
  const PipelineCsv now = parse_pipeline_csv("0F0,0I0,0W0,1F0,1B0");
  EXPECT_EQ(now.dialect, Dialect::now);
  EXPECT_THAT(labels(now.table)[0], ElementsAre("0F0", "0I0", "0W0", "1F0", "1B0"));
  const PipelineCsv middle = parse_pipeline_csv("0F0,0B0,0W0\n1F0,1BW0\n");
  EXPECT_EQ(middle.dialect, Dialect::intermediate);
  EXPECT_THAT(labels(middle.table),
              ElementsAre(ElementsAre("0F0", "0I0", "0W0"), ElementsAre("1F0", "1B0")));
  // Stage 1 has no W, so its B is whole.
  const PipelineCsv first = parse_pipeline_csv("0F0,0B0,0W0\n1F0,1B0\n");
  EXPECT_EQ(first.dialect, Dialect::first);
  EXPECT_THAT(labels(first.table),
              ElementsAre(ElementsAre("0F0", "0I0", "0W0"), ElementsAre("1F0", "1B0")));
}

// PyTorch's reader takes a prefix: it would read 0F0 here, and 2BW0 as 2B without micro-batch.
TEST(PipelineCsv, WantsTheWholeCell) {
  for (const char* text : {"0F0junk",
                           "0F0 0F1",
                           "F0",
                           "0F",
                           "0F0-1",
                           "-1F0",
                           "0SENDF0",
                           "0f0",
                           "0U0",
                           "0R0",
                           "0UNSHARD0",
                           "0WAIT_SEND_F",
                           "0WAIT_REDUCE_GRAD0",
                           "0WAIT_RECV_F0",
                           "(0F0;0B0",
                           "(0F0;0B0)OVERLAP",
                           "()OVERLAP_F_B",
                           "((0F0)OVERLAP_F_B;0B0)OVERLAP_F_B",
                           "(0F0;0SEND_F0)OVERLAP_F_B",
                           "99999999999F0",
                           "0F99999999999",
                           "2000000F0",
                           "'0F0'",
                           "\"0F0\"x",
                           "\"0F0"}) {
    const Violation problem = only_problem(std::string("0F0,") + text + ",0B0");
    EXPECT_EQ(problem.rule, "token") << text;
    EXPECT_EQ(problem.row, 0);
    EXPECT_EQ(problem.column, 1);
  }
}

TEST(PipelineCsv, NamesTokenRowAndColumn) {  // O04
  const Violation problem = only_problem("0F0,0F1,,,0B0,,0B1\n,0X1,1B0,,1F1,1B1,\n");
  EXPECT_EQ(problem.tasks, std::vector<std::string>{"0X1"});
  EXPECT_THAT(problem.message, HasSubstr("row 1, column 1: '0X1'"));
}

TEST(PipelineCsv, ListsEveryUnreadableCell) {
  const PipelineCsv csv = parse_pipeline_csv("0F0,x,0B0,y\nz\n\n0F1\n");
  ASSERT_EQ(csv.problems.size(), 4U);
  EXPECT_EQ(csv.problems[1].column, 3);
  EXPECT_EQ(csv.problems[2].row, 1);
  EXPECT_EQ(csv.problems[3].rule, "row");
  EXPECT_EQ(csv.problems[3].row, 2);
}

TEST(PipelineCsv, AcceptsWhatSpreadsheetsDo) {  // O50
  const ActionTable plain = parse_pipeline_csv("0F0,,0B0\n,1F0,1B0\n").table;
  for (const char* text :
       {"\xEF\xBB\xBF"
        "0F0,,0B0\n,1F0,1B0\n",
        "0F0,,0B0\r\n,1F0,1B0\r\n", "0F0,,0B0\r,1F0,1B0\r",
        "\"0F0\",\"\",\"0B0\"\n\"\",\"1F0\",\"1B0\"\n", " 0F0 ,\t, 0B0\n ,1F0 , 1B0 \n",
        "0F0,,0B0,,,\n,1F0,1B0,,,\n", "0F0,,0B0\n,1F0,1B0\n\n", "0F0,,0B0\r\n,1F0,1B0\r\n\r\n",
        "0F0,,0B0\n,1F0,1B0"}) {
    const PipelineCsv csv = parse_pipeline_csv(text);
    EXPECT_THAT(csv.problems, IsEmpty()) << text;
    EXPECT_EQ(csv.table, plain) << text;
  }
}

TEST(PipelineCsv, SaysWhatKindOfFileItIsInstead) {  // O50
  EXPECT_THAT(refusal("0F0;0F1;;;0B0\n;1F0;1B0\n"),
              AllOf(HasSubstr("semicolons"), HasSubstr("row 0, column 0")));
  EXPECT_THAT(refusal("0F0\t0F1\t0B0\n"), HasSubstr("tabs"));
  EXPECT_THAT(refusal(std::string("\xFF\xFE"
                                  "0\0F\0",
                                  6)),
              HasSubstr("UTF-16"));
  EXPECT_THAT(refusal(std::string("0\0F\0", 4)), HasSubstr("UTF-16"));
}

TEST(PipelineCsv, RefusesAnEmptyRowInsteadOfShiftingTheRest) {  // O50
  for (const char* text : {"0F0,0B0\n\n1F0,1B0\n", "0F0,0B0\n,,\n1F0,1B0\n",
                           "0F0,0B0\n\"\"\n1F0,1B0\n", "0F0,0B0\n \r\n1F0,1B0\n"}) {
    const Violation problem = only_problem(text);
    EXPECT_EQ(problem.rule, "row") << text;
    EXPECT_EQ(problem.row, 1) << text;
  }
  EXPECT_EQ(only_problem("0F0,0B0\n\n\n").row, 1);  // one empty last line is none, two are
}

TEST(PipelineCsv, StopsReadingAfterAThousandProblems) {
  std::string text;
  for (int n = 0; n < 5000; ++n) text += "?,";
  const PipelineCsv csv = parse_pipeline_csv(text);
  EXPECT_EQ(csv.problems.size(), 1000U);
  EXPECT_THAT(csv.problems.back().message, HasSubstr("too many"));
}

TEST(PipelineCsv, WritesWhatItReads) {
  const std::string text =
      "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0I0,0W0,0REDUCE_GRAD,0RESHARD\r\n"
      "1RECV_F0,1F0,1B0,1SEND_B0\r\n";
  EXPECT_EQ(pipeline_csv(parse_pipeline_csv(text).table), text);
}

TEST(PipelineCsv, ReadsAMillionCells) {
  std::string text;
  constexpr int rows = 4, micro_batches = 125'000;
  for (int k = 0; k < rows; ++k) {
    for (int i = 0; i < micro_batches; ++i) text += fmt::format("{}F{},{}B{},", k, i, k, i);
    text.back() = '\n';
  }
  const auto start = std::chrono::steady_clock::now();
  const PipelineCsv csv = parse_pipeline_csv(text);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds_for_a_million_cells", fmt::format("{:.3f}", took.count()));
  EXPECT_THAT(csv.problems, IsEmpty());
  ASSERT_EQ(csv.table.rows.size(), 4U);
  for (const ActionRow& row : csv.table.rows) EXPECT_EQ(row.size(), 2U * micro_batches);
}

}  // namespace
}  // namespace unlatch::files
