// Acceptance cases about messages between ranks: O02, O03, O07, O08 and O22.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "files/message_checks.h"
#include "files/pipeline_csv.h"
#include "files/queue_time.h"
#include "files/reduction_order.h"
#include "schedules/schedule.h"
#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using files::Sends;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

json check(const Folder& folder, const std::string& flags) {
  const Outcome outcome = folder.run("check file.csv --json " + flags);
  return json::parse(outcome.out, nullptr, false);
}

// ---- O02: rank 0 sends h_1(1) and receives g_1(0), rank 1 the other way round -------------------

const std::string sends_first_0 = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n";
const std::string receives_first_0 = "0F0,0SEND_F0,0F1,0RECV_B0,0SEND_F1,0B0,0RECV_B1,0B1\n";
const std::string sends_first_1 = "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";

TEST(O02, SimulateRefusesTwoRanksThatBothSendFirst) {
  const Folder folder;
  folder.write("file.csv", sends_first_0 + sends_first_1);
  const std::string simulate = "simulate --schedule file:file.csv --sends ";
  const Outcome refused = folder.run(simulate + "rendezvous");
  expect_refused(refused);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("rank 0 in 0SEND_F1 waits for 1RECV_F1 of rank 1, which stands "
                              "behind 1SEND_B0"),
                    HasSubstr("rank 1 in 1SEND_B0 waits for 0RECV_B0 of rank 0, which stands "
                              "behind 0SEND_F1")));
  EXPECT_EQ(std::ranges::count(refused.err, ';'), 1) << "more than two waits: " << refused.err;
  const json buffered = folder.json(simulate + "buffered");
  EXPECT_EQ(buffered["makespan_ms"], 9.0);
  EXPECT_FALSE(buffered.contains("sends"));
  EXPECT_EQ(folder.json(simulate + "grouped")["sends"], "grouped");
  folder.write("file.csv", receives_first_0 + sends_first_1);
  const json swapped = folder.json(simulate + "rendezvous");
  EXPECT_EQ(swapped["makespan_ms"], 9.0);
  EXPECT_EQ(swapped["sends"], "rendezvous");
}

TEST(O02, SimulateChecksTheMessagesThatASchedulesWorkNeeds) {
  const Folder folder;
  const std::string two = " --stages 2 --microbatches 4 --sends ";
  EXPECT_EQ(folder.run("simulate --schedule gpipe --batches 2" + two + "rendezvous").code, 0);
  EXPECT_EQ(folder.run("simulate --schedule gpipe --replicas 2" + two + "rendezvous").code, 0);
  const Outcome queues = folder.run("simulate --schedule dsp --stages 3 --sends rendezvous");
  expect_refused(queues);
  EXPECT_THAT(queues.err, AllOf(HasSubstr("queues"), HasSubstr("--sends buffered")));
  const Outcome refused = folder.run("simulate --schedule 1f1b" + two + "rendezvous");
  expect_refused(refused);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("rank 0 in 0SEND_F1 waits for 1RECV_F1"),
                                 HasSubstr("rank 1 in 1SEND_B0 waits for 0RECV_B0")));
  EXPECT_EQ(folder.run("simulate --schedule 1f1b" + two + "grouped").code, 0);
}

TEST(O02, CheckAndSimulateAgree) {
  const Folder folder;
  for (const char* spec : {"1f1b", "gpipe"}) {
    ASSERT_EQ(folder.run(fmt::format("convert {} file.csv --ranks 4 --microbatches 8", spec)).code,
              0);
    ASSERT_EQ(folder.run("convert file.csv file.json").code, 0);
    const int rendezvous = spec == std::string("1f1b") ? 2 : 0;
    for (const auto& [sends, code] : {std::pair{"rendezvous", rendezvous}, {"grouped", 0}}) {
      for (const char* file : {"file.csv", "file.json"}) {
        EXPECT_EQ(folder.run(fmt::format("check {} --sends {}", file, sends)).code, code) << spec;
        EXPECT_EQ(
            folder.run(fmt::format("simulate --schedule file:{} --sends {}", file, sends)).code,
            code)
            << spec;
      }
    }
    // PyTorch's order of the same messages needs no grouped calls.
    ASSERT_EQ(folder.run("convert file.csv lowered.csv --format compute_comms").code, 0);
    EXPECT_EQ(folder.run("check lowered.csv --sends rendezvous").code, 0) << spec;
  }
}

// ---- O03: an interleaved order on a ring of two ranks -------------------------------------------

/// The rows of the case, followed by what makes them a whole schedule and deadlocks nowhere.
std::string ring_of_two(const std::string& second_send_and_receive) {
  return fmt::format(
      "0F0,0SEND_F0,0F1,{},2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,"
      "2RECV_B0,2B0,2RECV_B1,2B1,2SEND_B0,0RECV_B0,0B0,2SEND_B1,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,3RECV_F0,3F0,1SEND_F1,3RECV_F1,3F1,"
      "3B0,3SEND_B0,3B1,3SEND_B1,1RECV_B0,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1\n",
      second_send_and_receive);
}

TEST(O03, AReceiveBehindASendDeadlocksOnTheRing) {
  const Folder folder;
  folder.write("file.csv", ring_of_two("0SEND_F1,2RECV_F0"));
  EXPECT_EQ(check(folder, "")["valid"], true);
  const json found = check(folder, "--sends rendezvous")["violations"];
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["rule"], "deadlock");
  EXPECT_THAT(found[0]["tasks"].get<std::vector<std::string>>(),
              UnorderedElementsAre("0SEND_F1", "1SEND_F0"));
  for (const std::string& message :
       {found[0]["message"].get<std::string>(),
        folder.run("simulate --schedule file:file.csv --sends rendezvous").err}) {
    EXPECT_THAT(message,
                AllOf(HasSubstr("rank 0 in 0SEND_F1 waits for 1RECV_F1 of rank 1, which stands "
                                "behind 1SEND_F0"),
                      HasSubstr("rank 1 in 1SEND_F0 waits for 2RECV_F0 of rank 0, which stands "
                                "behind 0SEND_F1")));
  }
}

TEST(O03, TheRowsOfTheCaseEndAtThreeWithBufferedSends) {
  const Folder folder;
  for (const char* order : {"0SEND_F1,2RECV_F0", "2RECV_F0,0SEND_F1"}) {
    folder.write("file.csv", ring_of_two(order));
    ASSERT_EQ(folder.run("simulate --schedule file:file.csv --tasks tasks.csv").code, 0);
    const std::string tasks = folder.read("tasks.csv");
    for (const char* line : {"0F1,F,0,0,1,0,compute,1,2,", "1F0,F,1,0,0,1,compute,1,2,",
                             "2F0,F,2,0,0,0,compute,2,3,", "1F1,F,1,0,1,1,compute,2,3,"}) {
      EXPECT_THAT(tasks, HasSubstr(line)) << order;
    }
  }
}

TEST(O03, AReceiveBeforeTheSendRunsUnderRendezvousToo) {
  const Folder folder;
  folder.write("file.csv", ring_of_two("2RECV_F0,0SEND_F1"));
  EXPECT_EQ(check(folder, "--sends rendezvous")["valid"], true);
  folder.json("simulate --schedule file:file.csv --sends rendezvous --tasks tasks.csv");
  const std::string tasks = folder.read("tasks.csv");
  for (const char* line : {"0F1,F,0,0,1,0,compute,1,2,", "1F0,F,1,0,0,1,compute,1,2,",
                           "2F0,F,2,0,0,0,compute,2,3,", "1F1,F,1,0,1,1,compute,2,3,"}) {
    EXPECT_THAT(tasks, HasSubstr(line)) << "ends at 3";
  }
}

// ---- O07: two shared gradients, reduced in a different order on each rank -----------------------

/// Both ranks hold both stages (a is 0, b is 1), each in a copy of its own: two reductions.
Schedule two_copies(std::pair<int, int> rank_0_updates, std::pair<int, int> rank_1_updates) {
  Schedule schedule("tied", {.stages = 4, .chunks = 2, .micro_batches = 2, .copies = 2});
  for (int r = 0; r < 2; ++r) {
    const auto& [first, second] = r == 0 ? rank_0_updates : rank_1_updates;
    const Stage a{2 * r}, b{2 * r + 1};
    const MicroBatch i{r};
    schedule.place(a, {r});
    schedule.place(b, {r});
    schedule.on({r}).forward(a, i).forward(b, i).backward(b, i).backward(a, i);
    schedule.on({r}).update(a + first, i).update(a + second, i);
  }
  return schedule;
}

TEST(O07, ReductionsInDifferentOrdersAreNamedWithRanksAndOrders) {
  const auto found = files::reduction_deadlock(two_copies({0, 1}, {1, 0}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rule, "deadlock");
  EXPECT_THAT(found->tasks, testing::SizeIs(2));
  EXPECT_THAT(found->message,
              AllOf(HasSubstr("rank 0 reduces stage 0 (0U0) before stage 1 (1U0)"),
                    HasSubstr("rank 1 reduces stage 1 (3U0) before stage 0 (2U0)")));
  EXPECT_FALSE(files::reduction_deadlock(two_copies({0, 1}, {0, 1})).has_value());
  EXPECT_FALSE(files::reduction_deadlock(two_copies({1, 0}, {1, 0})).has_value());
}

TEST(O07, ReductionsThatDoNotBlockAreMatchedByStage) {
  const TaskGraph same = two_copies({0, 1}, {0, 1}).build();
  const TaskGraph crossed = two_copies({0, 1}, {1, 0}).build();
  for (const TaskGraph* graph : {&same, &crossed}) {
    int reductions = 0;
    for (const TaskId id : graph->ids()) {
      if (graph->task(id).op != Op::all_reduce) continue;
      ++reductions;
      for (const Edge edge : graph->edges_into(id)) {
        const Task& gradient = graph->task(edge.from());
        EXPECT_EQ(graph->shape().model_stage(gradient.stage),
                  graph->shape().model_stage(graph->task(id).stage));
      }
      EXPECT_EQ(graph->edges_into(id).size(), 2U);
    }
    EXPECT_EQ(reductions, 2);
  }
}

TEST(O07, AFileWithCrossedReductionsIsRefusedWhereTheyBlock) {
  const Folder folder;
  const auto document = [](const char* rank_1) {
    return fmt::format(
        R"({{"format": "unlatch-schedule", "version": 1, "name": "tied",
             "shape": {{"stages": 4, "chunks": 2, "microbatches": 2, "copies": 2}},
             "placement": [0, 0, 1, 1],
             "programs": [["0F0", "1F0", "1B0", "0B0", "0U0", "1U0"],
                          ["2F1", "3F1", "3B1", "2B1", {}]]}})",
        rank_1);
  };
  folder.write("crossed.json", document(R"("3U0", "2U0")"));
  folder.write("same.json", document(R"("2U0", "3U0")"));
  EXPECT_EQ(folder.run("check crossed.json").code, 0);
  EXPECT_EQ(folder.run("check same.json --sends rendezvous").code, 0);
  const Outcome refused = folder.run("check crossed.json --sends rendezvous --json");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(json::parse(refused.out)["violations"][0]["message"].get<std::string>(),
              AllOf(HasSubstr("rank 0 reduces stage 0"), HasSubstr("rank 1 reduces stage 1")));
}

// ---- O08: what a stage sends and what the next one expects. No stage declares its input: shapes
// follow from the model and the micro-batch, so only saved weights can disagree with them.
// ---------

TEST(O08, WeightsOfAnotherInputAreRefusedWithBothShapes) {
  const Folder folder;
  const std::string train = "train --schedule 1f1b --stages 2 --model mlp ";
  ASSERT_EQ(folder
                .run(train + "--data digits --batch-size 8 --microbatches 4 --steps 2 "
                             "--save w.safetensors")
                .code,
            0);
  const Outcome outcome =
      folder.run("eval --weights w.safetensors --model mlp --data synthetic:1x9x9");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("linear1.weight"), HasSubstr("[64, 64]"), HasSubstr("[64, 81]")));
}

TEST(O08, EvaluationTakesBatchesOfItsOwnSize) {
  const Folder folder;
  const json trained = folder.json(
      "train --schedule 1f1b --stages 2 --model mlp --data digits --batch-size 8 --microbatches 4 "
      "--steps 20 --save w.safetensors");
  const json evaluated =
      folder.json("eval --weights w.safetensors --model mlp --data digits --threads 1");
  EXPECT_EQ(evaluated["accuracy"], trained["test_accuracy"]);
  EXPECT_EQ(evaluated["loss"], trained["test_loss"]);
}

// ---- O22: a receive in front of a send ----------------------------------------------------------

enum class Order { receive_after_each_send, all_sends_first };

/// Four ranks, two chunks each, forwards alone.
std::string forwards(int micro_batches, Order order) {
  std::string rows[4];
  const auto second_chunk = [&](int m, bool receive) {
    rows[0] += fmt::format("{1}4F{0},4SEND_F{0},", m, receive ? fmt::format("4RECV_F{},", m) : "");
  };
  for (int m = 0; m < micro_batches; ++m) {
    rows[0] += fmt::format("0F{0},0SEND_F{0},", m);
    if (order == Order::receive_after_each_send) rows[0] += fmt::format("4RECV_F{},", m);
  }
  for (int m = 0; m < micro_batches; ++m) second_chunk(m, order == Order::all_sends_first);
  for (int chunk = 0; chunk < 2; ++chunk) {
    for (int m = 0; m < micro_batches; ++m) {
      for (int r = 1; r < 4; ++r) {
        const int k = 4 * chunk + r;
        rows[r] += fmt::format("{0}RECV_F{1},{0}F{1},", k, m);
        if (k < 7) rows[r] += fmt::format("{0}SEND_F{1},", k, m);
      }
    }
  }
  return fmt::format("{}\n", fmt::join(rows, "\n"));
}

TEST(O22, AReceiveInFrontOfASendHoldsUpTheQueue) {
  const auto units = [](int micro_batches, Order order) {
    return files::queue_time(files::parse_pipeline_csv(forwards(micro_batches, order)).table);
  };
  EXPECT_EQ(units(4, Order::receive_after_each_send), 19);
  EXPECT_EQ(units(4, Order::all_sends_first), 11);
  EXPECT_EQ(units(8, Order::receive_after_each_send), 35);
  EXPECT_EQ(units(8, Order::all_sends_first), 19);
}

TEST(O22, RendezvousSendsDeadlockRoundTheRing) {
  const auto found = files::send_deadlock(
      files::parse_pipeline_csv(forwards(4, Order::all_sends_first)).table, Sends::rendezvous);
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->tasks, UnorderedElementsAre("0SEND_F3", "1SEND_F2", "2SEND_F1", "3SEND_F0"));
}

/// Puts every receive of row 0 in front of the work that needs it.
std::string with_late_receives(std::string text) {
  for (int m = 0; m < 4; ++m) {
    const std::string receive = fmt::format("4RECV_F{},", m), work = fmt::format("4F{},", m);
    text.erase(text.find(receive), receive.size());
    text.insert(text.find(work), receive);
  }
  return text;
}

TEST(O22, CheckTellsWhatOneQueueOfMessagesCosts) {
  const Folder folder;
  // PyTorch's greedy order puts a receive behind every forward of the first chunk.
  ASSERT_EQ(folder
                .run("convert looped-bfs file.csv --ranks 4 --chunks 2 --microbatches 4 "
                     "--format compute_comms")
                .code,
            0);
  const std::string greedy = folder.read("file.csv");
  ASSERT_THAT(greedy, testing::StartsWith("0F0,0SEND_F0,4RECV_F0,0F1,0SEND_F1,4RECV_F1,0F2,"));
  const int before = check(folder, "")["file"]["queue_time"];
  folder.write("file.csv", with_late_receives(greedy));
  EXPECT_EQ(before - check(folder, "")["file"]["queue_time"].get<int>(), 19 - 11);
  EXPECT_EQ(folder.json("simulate --schedule file:file.csv")["makespan_ms"],
            check(folder, "")["file"]["queue_time"].get<double>());
}

}  // namespace
}  // namespace unlatch::test
