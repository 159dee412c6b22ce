// profile --from-trace and --machine: what they write, and what simulate makes of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A profile of one rank, written the way Kineto does.
class Trace {
 public:
  explicit Trace(int rank = 0, int world_size = 2)
      : file_{
            {"schemaVersion", 1},
            {"distributedInfo", {{"backend", "nccl"}, {"rank", rank}, {"world_size", world_size}}},
            {"baseTimeNanoseconds", 1700000000000000000},
            {"traceEvents", json::array()}} {}

  /// Where its clock starts: older versions count from 1970.
  Trace& from(double us) {
    now_ = us;
    return *this;
  }
  Trace& host(const std::string& action, double us) {
    return range("user_annotation", 4242, 4242, action, us);
  }
  Trace& gpu(const std::string& action, double us, int stream = 7) {
    return range("gpu_user_annotation", 0, stream, action, us);
  }
  std::string text() const { return file_.dump(1); }

 private:
  Trace& range(const char* category, int pid, int tid, const std::string& action, double us) {
    file_["traceEvents"].push_back({{"ph", "X"},
                                    {"cat", category},
                                    {"name", "PP:" + action},
                                    {"pid", pid},
                                    {"tid", tid},
                                    {"ts", now_},
                                    {"dur", us}});
    now_ += us + 1;
    return *this;
  }
  json file_;
  double now_ = 0;
};

/// Stage k on rank k: F of 1000 (k + 1) us and B of twice that in the middle of three steps after
/// a slow first one; the host's ranges are longer.
Trace stage(int k) {
  Trace trace(k);
  const double unit = 1000.0 * (k + 1);
  for (const double factor : {9.0, 1.0, 1.5, 0.5}) {
    for (int i = 0; i < 2; ++i) {
      trace.host(fmt::format("{}F{}", k, i), 5 * unit).host(fmt::format("{}B{}", k, i), 5 * unit);
      trace.gpu(fmt::format("{}F{}", k, i), factor * unit);
      trace.gpu(fmt::format("{}B{}", k, i), factor * 2 * unit);
      trace.host(fmt::format("{}SEND_F{}", k, i), 10);
    }
  }
  return trace;
}

TEST(ProfileImport, TakesTheMiddleOfTheKernelsOfAllSteps) {
  const Folder folder;
  folder.write("r0.json", stage(0).text());
  // The last stage sends nowhere.
  json file = json::parse(stage(1).text());
  json& events = file["traceEvents"];
  for (auto event = events.begin(); event != events.end();) {
    event = (*event)["name"].get<std::string>().find("SEND") == std::string::npos
                ? event + 1
                : events.erase(event);
  }
  folder.write("r1.json", file.dump());
  ASSERT_EQ(std::system(fmt::format("gzip '{}'", folder.file("r1.json")).c_str()), 0);
  const Outcome outcome =
      folder.run("profile --from-trace r0.json --from-trace r1.json.gz --save p.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const json profile = json::parse(folder.read("p.json"));
  EXPECT_EQ(profile["sources"], json({"r0.json", "r1.json.gz"}));
  EXPECT_EQ(profile["warm_up"], 1);
  ASSERT_EQ(profile["stages"].size(), 2U);
  // Two micro-batches in three steps each: 0.5 0.5 1 1 1.5 1.5.
  const json forward = profile["stages"][1]["forward_us"];
  EXPECT_EQ(forward["median"], 2000);
  EXPECT_EQ(forward["mean"], 2000);
  EXPECT_EQ(forward["lower"], 1250);
  EXPECT_EQ(forward["upper"], 2750);
  EXPECT_EQ(forward["samples"], 6);
  EXPECT_EQ(profile["stages"][0]["backward_us"]["median"], 2000);

  const std::string simulate = "simulate --schedule bp --profile p.json --batches 1 --tasks t.csv ";
  const json run = folder.json(simulate);
  EXPECT_EQ(run["stages"], 2);
  EXPECT_EQ(run["makespan_ms"], 1 + 2 + 4 + 2);
  EXPECT_EQ(folder.length_ms("t.csv", "1B0"), 4);
  EXPECT_EQ(folder.json(simulate + "--microbatches 2")["makespan_ms"], 2 * 9)
      << "a batch in one piece";
  EXPECT_EQ(folder.json(simulate + "--transfer 0.5 --update 3")["makespan_ms"], 9 + 2 * 0.5 + 3);
  const Outcome split = folder.run("simulate --schedule zb-h1 --profile p.json --tasks t.csv");
  EXPECT_THAT(split.err, HasSubstr("I and W of some stages were not measured"));
  EXPECT_EQ(folder.length_ms("t.csv", "1I0"), 2);
  EXPECT_EQ(folder.length_ms("t.csv", "1W0"), 2);
}

// Six steps of F on two stages, of which the first of stage 0 starts everything up.
TEST(O36, TheFirstStepIsLeftOutAndTheReportSaysWhy) {
  const Folder folder;
  const std::vector<std::vector<double>> forward{{900, 101, 99, 100, 102, 98},
                                                 {101, 100, 100, 99, 100, 100}};
  for (int k = 0; k < 2; ++k) {
    Trace trace(k);
    for (const double us : forward[static_cast<std::size_t>(k)]) {
      for (const char* op : {"F", "B"}) {
        const std::string action = fmt::format("{}{}0", k, op);
        trace.host(action, us).gpu(action, us);
      }
    }
    folder.write(fmt::format("r{}.json", k), trace.text());
  }
  const std::string profile = "profile --from-trace r0.json --from-trace r1.json ";
  const json stages = folder.json(profile)["stages"];
  const double first = stages[0]["forward_us"]["median"],
               second = stages[1]["forward_us"]["median"];
  EXPECT_GE(first, 98);
  EXPECT_LE(first, 102);
  EXPECT_NEAR(first / second, 1, 0.03);
  EXPECT_EQ(stages[0]["forward_us"]["mean"], 100);
  EXPECT_EQ(stages[0]["forward_us"]["samples"], 5);
  // F and B of two stages.
  EXPECT_THAT(folder.run(profile).out,
              HasSubstr("4 samples left out: those of the first step, which starts up and"));
  EXPECT_THAT(folder.run(profile + "--warm-up 2").out,
              HasSubstr("8 samples left out: those of the first 2 steps, which start up and"));
  const json all = folder.json(profile + "--warm-up 0")["stages"];
  EXPECT_EQ(all[0]["forward_us"]["samples"], 6);
  EXPECT_EQ(all[0]["forward_us"]["median"], 100.5);
  EXPECT_NEAR(all[0]["forward_us"]["mean"].get<double>(), 1400 / 6.0, 1e-3);
  EXPECT_THAT(folder.run(profile + "--warm-up 0").out, HasSubstr("no samples left out"));
}

TEST(ProfileImport, ReadsHostsOldTimesAndSplitBackwards) {
  const Folder folder;
  Trace trace(0, 1);
  trace.from(1700000000000000.25);
  for (int step = 0; step < 2; ++step) {
    trace.host("0F0", 100).host("0I0", 70.5).host("0W0", 50).host("0UNSHARD", 5);
  }
  const json events = json::parse(trace.text())["traceEvents"];
  folder.write("old.json", events.dump());  // a bare list
  const Outcome outcome = folder.run("profile --from-trace old.json --save p.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("no GPU ranges in old.json: its times are those of the host"));
  const json run =
      folder.json("simulate --schedule zb-h1 --profile p.json --microbatches 1 --tasks t.csv");
  EXPECT_NEAR(run["makespan_ms"].get<double>(), 0.1 + 0.0705 + 0.05, 1e-9);
  EXPECT_NEAR(folder.length_ms("t.csv", "0I0"), 0.0705, 1e-9);
  EXPECT_NEAR(folder.json("simulate --schedule bp --profile p.json")["makespan_ms"].get<double>(),
              0.2205, 1e-9)
      << "B is both";
  EXPECT_THAT(folder.run("simulate --schedule zb-h1 --profile p.json").err, Not(HasSubstr("note")));
}

TEST(ProfileImport, ReadsADirectoryAndPoolsReplicas) {
  const Folder folder;
  ASSERT_EQ(std::system(fmt::format("mkdir '{}'", folder.file("traces")).c_str()), 0);
  for (const int rank : {0, 1}) {
    Trace trace(rank, 4);
    for (int step = 0; step < 2; ++step) {
      trace.gpu("0F0", 10 + 10 * rank).gpu("0B0", 40);
    }
    folder.write(fmt::format("traces/rank{}.pt.trace.json", rank), trace.text());
  }
  folder.write("traces/notes.txt", "no trace");
  const Outcome outcome = folder.run("profile --from-trace traces --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("2 of 4 ranks were read"));
  const json profile = json::parse(outcome.out);
  EXPECT_EQ(profile["stages"][0]["forward_us"]["median"], 15);
  EXPECT_EQ(profile["stages"][0]["forward_us"]["samples"], 2);
}

TEST(ProfileImport, NamesWhatIsMissingOrDamaged) {
  const Folder folder;
  const auto refused = [&](const std::string& arguments, const auto& message) {
    SCOPED_TRACE(arguments);
    const Outcome outcome = folder.run("profile --save p.json " + arguments);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, message);
    EXPECT_FALSE(std::filesystem::exists(folder.file("p.json")));
  };
  const auto twice = [](Trace trace, const std::vector<std::string>& actions) {
    for (int step = 0; step < 2; ++step) {
      for (const std::string& action : actions) trace.gpu(action, 10);
    }
    return trace.text();
  };
  folder.write("r0.json", stage(0).text());
  refused("--from-trace r0.json",
          AllOf(HasSubstr("stage 1 is in none of the 1 profile;"),
                HasSubstr("r0.json (0SEND_F0) exchanges messages with it")));
  refused("--from-trace r0.json --from-trace r0.json", HasSubstr("'r0.json' is given twice"));
  folder.write("copy.json", stage(0).text());
  refused("--from-trace r0.json --from-trace copy.json",
          HasSubstr("copy.json: it is of rank 0, as r0.json is"));
  for (const char* rank : {"-1", "0.5", "\"0\"", "4294967296"}) {
    folder.write("rank.json", fmt::format(R"({{"distributedInfo": {{"rank": {}}},
                                              "traceEvents": []}})",
                                          rank));
    refused("--from-trace rank.json", HasSubstr("distributedInfo.rank must be a whole number"));
  }
  folder.write("r2.json", twice(Trace(2, 3), {"2F0", "2B0"}));
  refused("--from-trace r2.json", HasSubstr("stage 0 is in none of the 1 profile"));
  folder.write("f.json", twice(Trace(0, 1), {"0F0"}));
  refused("--from-trace f.json", HasSubstr("stage 0 has no B, and no I and W"));
  folder.write("i.json", twice(Trace(0, 1), {"0F0", "0I0"}));
  refused("--from-trace i.json", HasSubstr("stage 0 has no B, and no I and W"));
  folder.write("half.json", twice(Trace(0, 1), {"0F0", "0B0", "0W1"}));
  refused("--from-trace half.json", HasSubstr("stage 0 has W but no I"));
  folder.write("odd.json", twice(Trace(0, 1), {"0F0", "0X0"}));
  refused("--from-trace odd.json", HasSubstr("odd.json: the range 'PP:0X0' is no action"));
  folder.write("both.json", twice(Trace(0, 1), {"0F0", "(0F1;1B0)OVERLAP_F_B"}));
  refused("--from-trace both.json", HasSubstr("OVERLAP_F_B ranges do not say"));
  folder.write("plain.json", json{{"traceEvents", json::array()}}.dump());
  refused("--from-trace plain.json", HasSubstr("no range is named PP:<action>"));
  folder.write("once.json", Trace(0, 1).gpu("0F0", 10).gpu("0B0", 20).text());
  refused("--from-trace once.json",
          HasSubstr("'PP:0B0' is there 1 time, once a step, and the first 1 are left out"));
  EXPECT_EQ(folder.run("profile --from-trace once.json --warm-up 0").code, 0);
  folder.write("bad.json", twice(Trace(0, 1), {"0F0", "0B0"}).substr(0, 400));
  refused("--from-trace bad.json", HasSubstr("bad.json: this is not complete JSON"));
  ASSERT_EQ(std::system(fmt::format("cd '{}' && gzip -k r0.json && head -c 100 r0.json.gz > "
                                    "cut.json.gz",
                                    folder.path())
                            .c_str()),
            0);
  refused("--from-trace cut.json.gz",
          HasSubstr("cut.json.gz': the compressed data ends too early"));
  refused("--from-trace none.json", HasSubstr("cannot read 'none.json'"));
  refused("--from-trace r0.json --model mlp",
          HasSubstr("--model has no meaning with --from-trace"));
}

TEST(ProfileImport, RefusesWhatContradictsTheStages) {
  const Folder folder;
  Trace trace(0, 1);
  for (int step = 0; step < 2; ++step)
    trace.gpu("0F0", 10).gpu("0B0", 20).gpu("1F0", 10).gpu("1B0", 20);
  folder.write("t.json", trace.text());
  ASSERT_EQ(folder.run("profile --from-trace t.json --save p.json").code, 0);
  const auto refused = [&](const std::string& arguments, const auto& message) {
    SCOPED_TRACE(arguments);
    const Outcome outcome = folder.run(arguments);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, message);
  };
  const std::string simulate = "simulate --schedule 1f1b --profile p.json ";
  refused(simulate + "--stages 4",
          HasSubstr("holds the costs of 2 stages, but the schedule has 4"));
  refused(simulate + "--forward 1", HasSubstr("--forward contradicts --profile"));
  refused(simulate + "--batch-size 8", HasSubstr("here the costs are those of measured stages"));
  refused(simulate + "--cluster 4xP40", HasSubstr("leave one of them out"));
  refused(
      "simulate --schedule 1f1b --profile t.json",
      HasSubstr("'t.json' is a trace; make a profile of it first: unlatch profile --from-trace"));
  refused("train --schedule bp --stages 2 --model lenet --data digits --steps 1 --profile p.json",
          HasSubstr("it holds the costs of stages"));
  json file = json::parse(folder.read("p.json"));
  const json whole = file;
  file["stages"][1]["forward_us"]["lower"] = 11;
  folder.write("p.json", file.dump());
  refused(simulate,
          HasSubstr("p.json, stages[1].forward_us: lower 11, median 10 and upper 10 are"));
  file = whole;
  file["stages"][1]["forward_us"]["mean"] = 4;
  folder.write("p.json", file.dump());
  refused(simulate, HasSubstr("forward_us.mean: 4 is less than half of the median, 10"));
  file = whole;
  file["stages"][1]["forward_us"]["mean"] = 41;
  file["stages"][1]["forward_us"]["upper"] = 10;
  folder.write("p.json", file.dump());
  refused(simulate, HasSubstr("stages[1].forward_us.mean: 41 is more than 4 times the upper"));
  file["stages"][1]["forward_us"]["samples"] = 20;
  folder.write("p.json", file.dump());
  EXPECT_EQ(folder.run(simulate).code, 0);  // one of twenty may take long
  file["stages"][1]["forward_us"]["mean"] = 1e9;
  folder.write("p.json", file.dump());
  refused(simulate, HasSubstr("forward_us.mean: 1000000000 is more than 100000 times the upper"));
  file = whole;
  file["stages"][1]["input_gradient_us"] = file["stages"][1]["backward_us"];
  folder.write("p.json", file.dump());
  refused(simulate,
          HasSubstr("stages[1]: there is 'input_gradient_us' without 'weight_gradient_us'"));
  file = whole;
  file["stages"][1]["forward_us"]["median"] = -1;
  folder.write("p.json", file.dump());
  refused(simulate, HasSubstr("p.json, stages[1].forward_us.median: -1 must be a number in 0.."));
  file["stages"][1].erase("forward_us");
  folder.write("p.json", file.dump());
  refused(simulate, HasSubstr("p.json, stages[1]: there is no 'forward_us'"));
}

TEST(ProfileMachine, WritesHardwareThatClusterReads) {
  const Folder folder;
  const Outcome outcome = folder.run("profile --machine --save this.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json file = json::parse(folder.read("this.json"));
  EXPECT_GT(file["device_types"]["core"]["tflops"]["fp32"], 0);
  EXPECT_GE(file["node"]["devices"]["count"], 1);
  const json run = folder.json(
      "simulate --schedule bp --stages 1 --cluster this.json --model lenet --data digits "
      "--batch-size 16");
  EXPECT_GT(run["makespan_ms"], 0);
  EXPECT_EQ(run["placement"]["device_types"], json({"core"}));
  const Outcome unnamed =
      folder.run("simulate --schedule bp --stages 1 --cluster this --model lenet --batch-size 16");
  expect_refused(unnamed);
  EXPECT_THAT(unnamed.err, HasSubstr("unlatch profile --machine --save this.json"));
  const Outcome both = folder.run("profile --machine --workers 2");
  expect_refused(both);
  EXPECT_THAT(both.err, HasSubstr("--workers has no meaning with --machine"));
}

}  // namespace
}  // namespace unlatch::test
