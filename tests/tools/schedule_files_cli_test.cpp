// unlatch check and convert, and --schedule file:PATH.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

const char* const base = "0F0,0F1,,,0B0,,0B1\n,1F0,1B0,,1F1,1B1,\n";

/// The verdict on a file, whatever the exit code.
json verdict(const Folder& folder, const std::string& text, const std::string& flags = "") {
  folder.write("file.csv", text);
  const Outcome outcome = folder.run(fmt::format("check file.csv {} --json", flags));
  const json document = json::parse(outcome.out, nullptr, false);
  EXPECT_FALSE(document.is_discarded()) << outcome.out;
  EXPECT_EQ(outcome.code, document["valid"].get<bool>() ? 0 : 2);
  return document;
}

TEST(Check, AcceptsAValidFile) {
  const Folder folder;
  const json document = verdict(folder, base);
  EXPECT_EQ(document["valid"], true);
  EXPECT_THAT(document["violations"], IsEmpty());
  EXPECT_EQ(document["file"]["stages"], 2);
  EXPECT_EQ(document["file"]["microbatches"], 2);
  EXPECT_EQ(document["file"]["format"], "compute_only");
  const Outcome text = folder.run("check file.csv");
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.out, "file.csv: valid; 2 stages on 2 ranks, 2 micro-batches a batch, 1 batch\n");
  EXPECT_THAT(text.err, IsEmpty());
}

TEST(Check, PrintsViolationsAndExitsWithTwo) {
  const Folder folder;
  const json document = verdict(folder, "0F0,0F1,,,0B0,,0B1\n,0X1,1B0,,1F1,1B1,\n");
  EXPECT_EQ(document["valid"], false);
  const json first = document["violations"][0];
  EXPECT_EQ(first["rule"], "token");
  EXPECT_EQ(first["tasks"], json::parse(R"(["0X1"])"));
  EXPECT_EQ(first["row"], 1);
  EXPECT_EQ(first["column"], 1);
  const Outcome text = folder.run("check file.csv");
  EXPECT_EQ(text.code, 2);
  EXPECT_THAT(text.out, HasSubstr("file.csv: token: row 1, column 1: '0X1'"));
  EXPECT_THAT(text.err, AllOf(HasSubstr("error: "), HasSubstr("violations")));
}

TEST(Check, CallsTextThatIsNoScheduleAFormatViolation) {
  const Folder folder;
  const json document = verdict(folder, "0F0;0F1;0B0\n");
  EXPECT_EQ(document["violations"][0]["rule"], "format");
  EXPECT_EQ(document["violations"][0]["row"], nullptr);
  expect_refused(folder.run("check missing.csv --json"));
  expect_refused(folder.run("check"));
}

TEST(Check, FindsDeadlocksOfBlockingSendsWhenAsked) {  // O02
  const Folder folder;
  const std::string text =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";
  EXPECT_EQ(verdict(folder, text)["valid"], true);
  EXPECT_EQ(verdict(folder, text, "--sends grouped")["valid"], true);
  const json document = verdict(folder, text, "--sends rendezvous");
  ASSERT_EQ(document["violations"].size(), 1U);
  EXPECT_EQ(document["violations"][0]["rule"], "deadlock");
  EXPECT_EQ(document["violations"][0]["tasks"].size(), 2U);
}

TEST(Check, NamesEveryRankThatBreaksTheMemoryLimit) {  // O17
  const Folder folder;
  ASSERT_EQ(folder.run("convert 1f1b a.csv --ranks 4 --microbatches 8").code, 0);
  ASSERT_EQ(folder.run("convert a.csv a.json").code, 0);
  const std::string limit = "--activation-size 1.5GiB --memory-limit ";
  for (const char* file : {"a.csv", "a.json"}) {
    EXPECT_EQ(folder.run(fmt::format("check {} {}6GiB", file, limit)).code, 0);
    const Outcome over = folder.run(fmt::format("check {} {}5GiB --json", file, limit));
    EXPECT_EQ(over.code, 2);
    EXPECT_THAT(over.err, HasSubstr("on 1 rank, the first of them rank 0"));
    const json document = json::parse(over.out);
    EXPECT_EQ(document["valid"], false);
    ASSERT_EQ(document["violations"].size(), 1U);
    json fault = document["violations"][0];
    EXPECT_THAT(fault["message"].get<std::string>(),
                AllOf(HasSubstr("rank 0 needs 6 GiB"), HasSubstr("the limit is 5 GiB"),
                      HasSubstr("exceeded at 0F3 at row 0, column 3")));
    fault.erase("message");
    EXPECT_EQ(fault, json::parse(R"({"rule": "memory", "tasks": ["0F3"], "row": 0, "column": 3,
                                     "rank": 0, "needed_bytes": 6442450944,
                                     "allowed_bytes": 5368709120})"));
  }
  const Outcome two = folder.run(fmt::format("check a.csv {}4GiB", limit));
  EXPECT_THAT(two.out, AllOf(HasSubstr("a.csv: memory: rank 0 needs"),
                             HasSubstr("rank 1 needs 4.5 GiB"), HasSubstr("1F2")));
}

TEST(Check, CountsIdleCellsAndPiecesOfASplitBackwardForTheMemoryLimit) {  // O19
  const Folder folder;
  const auto first = [&](const std::string& text, const std::string& flags) {
    const json violations = verdict(folder, text, flags)["violations"];
    return violations.empty() ? json() : violations[0];
  };
  const json split = first("0F0,,0F1,0I0,0F2,0I1,0W0,0I2,0W1,0W2\n",
                           "--activation-size 1000 --weight-grad-activation-size 600 "
                           "--memory-limit 2500");
  EXPECT_EQ(split["tasks"], json::parse(R"(["0F2"])"));
  EXPECT_EQ(split["column"], 4);
  EXPECT_EQ(split["needed_bytes"], 2600);
  const json weights = first(base, "--weight-size 3,7 --memory-limit 5");
  EXPECT_EQ(weights["rank"], 1);
  EXPECT_EQ(weights["row"], 1);
  EXPECT_EQ(weights["column"], nullptr);
  EXPECT_THAT(weights["tasks"], IsEmpty());
}

TEST(Check, RefusesSizesWithoutALimitAndALimitWithoutSizes) {
  const Folder folder;
  folder.write("base.csv", base);
  const Outcome sizes = folder.run("check base.csv --activation-size 1GiB");
  expect_refused(sizes);
  EXPECT_THAT(sizes.err, HasSubstr("--activation-size needs --memory-limit"));
  const Outcome limit = folder.run("check base.csv --memory-limit 1GiB");
  expect_refused(limit);
  EXPECT_THAT(limit.err, HasSubstr("--memory-limit needs a size"));
  expect_refused(folder.run("check base.csv --memory-limit 1GiB --activation-size 1,2,3"));
}

TEST(Check, CountsTheStepsOfPyTorchsChecker) {
  const Folder folder;
  ASSERT_EQ(folder.run("convert 1f1b out.csv --ranks 4 --microbatches 8").code, 0);
  EXPECT_EQ(folder.json("check out.csv")["file"]["steps"], 61);
}

// A receive that is posted before its message can come.
TEST(Check, CountsNoStepsWhereAReceiveStandsEarly) {
  const Folder folder;
  const json document = verdict(folder, "0RECV_B0,0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  EXPECT_EQ(document["valid"], true);
  EXPECT_TRUE(document["file"]["steps"].is_null());
  EXPECT_TRUE(document["file"]["queue_time"].is_null());
}

TEST(Check, NamesAWaitWithoutItsSend) {
  const Folder folder;
  const json document = verdict(
      folder, "0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0\n1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_F0\n");
  ASSERT_EQ(document["violations"].size(), 2U);
  EXPECT_EQ(document["violations"][0]["tasks"], json::parse(R"(["1SEND_B0"])"));
  const json wait = document["violations"][1];
  EXPECT_EQ(wait["rule"], "missing");
  EXPECT_EQ(wait["tasks"], json::parse(R"(["1WAIT_SEND_F0"])"));
  EXPECT_EQ(wait["row"], 1);
  EXPECT_EQ(wait["column"], 4);
}

TEST(Convert, WritesAScheduleOfTheCatalogue) {
  const Folder folder;
  const Outcome outcome = folder.run("convert 1f1b out.csv --ranks 2 --microbatches 3");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(folder.read("out.csv"), "0F0,0F1,0B0,0F2,0B1,0B2\r\n1F0,1B0,1F1,1B1,1F2,1B2\r\n");
  ASSERT_EQ(folder.run("convert out.csv lowered.csv --format compute_comms").code, 0);
  EXPECT_EQ(folder.read("lowered.csv"),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0F2,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2\r\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1RECV_F2,1B1,1SEND_B1,1F2,1B2,1SEND_B2\r\n");
  ASSERT_EQ(folder.run("convert lowered.csv back.csv").code, 0);
  EXPECT_EQ(folder.read("back.csv"), folder.read("out.csv"));
}

TEST(Convert, AddsWaitsWhenAsked) {
  const Folder folder;
  const std::string lower = "--format compute_comms --waits yes";
  ASSERT_EQ(folder.run(fmt::format("convert 1f1b a.csv --ranks 2 --microbatches 2 {}", lower)).code,
            0);
  EXPECT_EQ(folder.read("a.csv"),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1\r\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1\r\n");
  EXPECT_EQ(folder.json("check a.csv")["file"]["format"], "compute_comms");
  ASSERT_EQ(folder.run(fmt::format("convert a.csv same.csv {}", lower)).code, 0);
  EXPECT_EQ(folder.read("same.csv"), folder.read("a.csv"));
  ASSERT_EQ(folder.run("convert a.csv bare.csv --format compute_comms").code, 0);
  ASSERT_EQ(
      folder.run("convert 1f1b old.csv --ranks 2 --microbatches 2 --format compute_comms").code, 0);
  EXPECT_EQ(folder.read("bare.csv"), folder.read("old.csv"));
  ASSERT_EQ(folder.run("convert old.csv again.csv " + lower).code, 0);
  EXPECT_EQ(folder.read("again.csv"), folder.read("a.csv"));
  EXPECT_EQ(folder.run("show file:a.csv").out, folder.run("show file:old.csv").out);
}

TEST(Convert, AddsWaitsForReductionsBesideShards) {
  const Folder folder;
  const std::string lower = "--format compute_comms --waits yes --shards yes";
  ASSERT_EQ(folder.run(fmt::format("convert 1f1b a.csv --ranks 2 {}", lower)).code, 0);
  EXPECT_EQ(folder.read("a.csv"),
            "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,"
            "0RESHARD\r\n"
            "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1RESHARD,"
            "1WAIT_SEND_B0\r\n");
  EXPECT_EQ(folder.run("check a.csv --sends rendezvous").code, 0);
}

TEST(Convert, RefusesWaitsWhereNoMessagesAreWritten) {
  const Folder folder;
  const Outcome bare = folder.run("convert 1f1b a.csv --waits yes");
  expect_refused(bare);
  EXPECT_THAT(bare.err, HasSubstr("--waits needs --format compute_comms"));
  const Outcome native = folder.run("convert 1f1b a.json --waits yes");
  expect_refused(native);
  EXPECT_THAT(native.err, HasSubstr("--waits is for CSV files"));
}

TEST(Convert, RefusesMicroBatchesOfAScheduleThatRunsABatchInOnePiece) {
  const Folder folder;
  for (const char* spec : {"bp", "ssgd", "ddg", "dsp"}) {
    for (const char* out : {"a.csv", "a.json"}) {
      const Outcome refused = folder.run(fmt::format("convert {} {} --microbatches 8", spec, out));
      expect_refused(refused);
      EXPECT_THAT(refused.err, HasSubstr(fmt::format("--microbatches 8: {} runs a batch in one "
                                                     "piece",
                                                     spec)));
    }
  }
  EXPECT_EQ(folder.files(), 0);
  EXPECT_EQ(folder.run("convert bp a.csv --microbatches 1").code, 0);
  EXPECT_EQ(folder.run("convert bp b.csv").code, 0);
  EXPECT_EQ(folder.read("a.csv"), folder.read("b.csv"));
}

TEST(Convert, GoesToJsonAndBack) {
  const Folder folder;
  ASSERT_EQ(folder.run("convert 1f1b a.csv --ranks 3 --microbatches 4").code, 0);
  ASSERT_EQ(folder.run("convert a.csv b.json").code, 0);
  ASSERT_EQ(folder.run("convert b.json c.csv").code, 0);
  EXPECT_EQ(folder.read("c.csv"), folder.read("a.csv"));
  EXPECT_EQ(folder.run("check b.json").code, 0);
}

TEST(Convert, SaysWhatCsvCannotHold) {
  const Folder folder;
  const Outcome outcome = folder.run("convert dsp out.csv --stages 3 --batches 1");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("JSON"));
  EXPECT_EQ(folder.files(), 0);
  expect_refused(folder.run("convert 1f1b out.txt"));
  expect_refused(folder.run("convert 1f1b"));
  folder.write("bad.csv", "0F0,0F0,0B0\n");
  expect_refused(folder.run("convert bad.csv out.json"));
  expect_refused(folder.run("convert 1f1b.csv out.json"));
}

TEST(Convert, CompressesATrace) {
  const Folder folder;
  ASSERT_EQ(folder.run("simulate --schedule bp --stages 2 --trace run.json").code, 0);
  ASSERT_EQ(folder.run("convert run.json packed.json.gz").code, 0);
  ASSERT_EQ(folder.run("convert packed.json.gz unpacked.json").code, 0);
  EXPECT_EQ(folder.read("unpacked.json"), folder.read("run.json"));
  EXPECT_NE(folder.read("packed.json.gz"), folder.read("run.json"));
  expect_refused(folder.run("convert run.json out.csv"));
}

TEST(ScheduleFiles, RunLikeTheScheduleTheyCameFrom) {
  const Folder folder;
  ASSERT_EQ(folder.run("convert 1f1b a.csv --ranks 4 --microbatches 8").code, 0);
  ASSERT_EQ(folder.run("convert 1f1b a.json --ranks 4 --microbatches 8").code, 0);
  const std::string costs = "--batches 3 --transfer 0.5 --update 0.25";
  json expected = folder.json("simulate --schedule 1f1b --ranks 4 --microbatches 8 " + costs);
  for (const char* file : {"file:a.csv", "file:a.json"}) {
    json found = folder.json(fmt::format("simulate --schedule {} {}", file, costs));
    EXPECT_EQ(found["schedule"], file);
    found["schedule"] = "1f1b";
    EXPECT_EQ(found, expected) << file;
  }
}

TEST(ScheduleFiles, AreAcceptedByEveryCommand) {
  const Folder folder;
  folder.write("base.csv", base);
  const Outcome shown = folder.run("show file:base.csv");
  EXPECT_EQ(shown.out,
            "rank 0  F0  F1  .   .   B0  -   .   B1  -\nrank 1  .   F0  B0  -   F1  B1  -   .   "
            ".\n");
  ASSERT_EQ(folder.run("convert base.csv base.json").code, 0);
  EXPECT_EQ(folder.run("show file:base.json").out, shown.out);
  const json ranked = folder.json(
      "compare --schedule file:base.csv --schedule gpipe --schedule dsp --stages 2 "
      "--microbatches 2");
  EXPECT_EQ(ranked["schedules"].size(), 3U);
  const std::string chain = "numerics --weights 0.9,-0.8 --batches 3 ";
  EXPECT_EQ(folder.json(chain + "--schedule file:base.csv")["final"],
            folder.json(chain + "--schedule 1f1b --microbatches 2")["final"]);
  const std::string training = "train --model mlp --data digits --steps 3 --batch-size 8 ";
  EXPECT_EQ(folder.json(training + "--schedule file:base.csv")["test_loss"],
            folder.json(training + "--schedule 1f1b --stages 2 --microbatches 2")["test_loss"]);
}

TEST(ScheduleFiles, KeepSeveralBatchesOfAStaleSchedule) {
  const Folder folder;
  ASSERT_EQ(folder.run("convert dsp a.json --stages 3 --batches 12").code, 0);
  const json expected = folder.json("simulate --schedule dsp --stages 3 --batches 12");
  const json found = folder.json("simulate --schedule file:a.json");
  for (const char* key : {"makespan_ms", "bubble_ratio", "stages_detail", "ranks_detail",
                          "critical_path", "batches"}) {
    EXPECT_EQ(found[key], expected[key]) << key;
  }
  EXPECT_EQ(found["steady_state"]["batch_period_ms"], 3.0);
  const Outcome other = folder.run("simulate --schedule file:a.json --batches 5");
  expect_refused(other);
  EXPECT_THAT(other.err, HasSubstr("a.json holds 12 batches, 5 were asked for"));
}

TEST(ScheduleFiles, KeepDataParallelReplicas) {
  const Folder folder;
  ASSERT_EQ(folder.run("convert 1f1b a.json --ranks 2 --microbatches 3 --replicas 3").code, 0);
  EXPECT_EQ(folder.run("check a.json").code, 0);
  const std::string flags = " --batches 2 --transfer 0.5 --all-reduce 0.25";
  json expected =
      folder.json("simulate --schedule 1f1b --ranks 2 --microbatches 3 --replicas 3" + flags);
  json found = folder.json("simulate --schedule file:a.json" + flags);
  EXPECT_EQ(found["replicas"], 3);
  found["schedule"] = "1f1b";
  EXPECT_EQ(found, expected);
  const std::string chain = "numerics --weights 0.9,-0.8 --batches 3 --schedule ";
  EXPECT_EQ(folder.json(chain + "file:a.json")["final"],
            folder.json(chain + "1f1b --microbatches 3 --replicas 3")["final"]);
  EXPECT_EQ(folder.json("simulate --schedule file:a.json --replicas 2")["replicas"], 2);
}

TEST(ScheduleFiles, RefuseReplicasThatDiffer) {
  const Folder folder;
  ASSERT_EQ(folder.run("convert gpipe a.json --ranks 1 --microbatches 2 --replicas 2").code, 0);
  std::string text = folder.read("a.json");
  const std::string order = R"("1F2","1F3")";
  ASSERT_NE(text.find(order), std::string::npos) << text;
  text.replace(text.find(order), order.size(), R"("1F3","1F2")");
  folder.write("b.json", text);
  EXPECT_EQ(folder.run("check b.json").code, 0);
  const Outcome outcome = folder.run("simulate --schedule file:b.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("2 data-parallel replicas that do not do the same"));
}

/// Wherever it stands, a stage or micro-batch that there is not is one range violation.
TEST(ScheduleFiles, NameTasksOutOfRange) {
  const Folder folder;
  for (const char* spec :
       {"asgd --replicas 2", "ssgd --replicas 2", "local-sgd --replicas 2", "ssd-sgd --replicas 2",
        "chimera --microbatches 4", "dualpipe --microbatches 4", "dgl:mode=async", "dni", "dfa",
        "dsp:form=queue", "1f1b --microbatches 4", "zb-h1 --microbatches 4"}) {
    ASSERT_EQ(folder.run(fmt::format("convert {} a.json --ranks 2 --batches 3", spec)).code, 0)
        << spec;
    const std::string text = folder.read("a.json");
    for (const char letter : {'F', 'B', 'I', 'W', 'U', 'R'}) {
      const std::size_t at = text.find(fmt::format("\"0{}0\"", letter));
      if (at == std::string::npos) continue;
      for (const char* task : {"4{}0", "65536{}0", "1{}2147483647", "0{}12"}) {
        std::string bad = text;
        bad.replace(at + 1, 3, fmt::format(fmt::runtime(task), letter));
        folder.write("b.json", bad);
        const Outcome outcome = folder.run("check b.json");
        EXPECT_EQ(outcome.code, 2);
        EXPECT_THAT(outcome.out, testing::AnyOf(HasSubstr("range"), HasSubstr("U")))
            << spec << " with " << task << letter;
      }
    }
  }
}

TEST(ScheduleFiles, RefuseAnotherShape) {
  const Folder folder;
  folder.write("base.csv", base);
  const Outcome outcome = folder.run("simulate --schedule file:base.csv --microbatches 8");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("with 2 micro-batches"));
  expect_refused(folder.run("simulate --schedule file:base.csv --ranks 4"));
  expect_refused(folder.run("simulate --schedule file:missing.csv"));
}

}  // namespace
}  // namespace unlatch::test
