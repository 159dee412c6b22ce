// What people get wrong on the command line and in files, and machines that run full.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string mlp = " --model mlp --data digits --stages 2 --schedule bp";

// The only batch has a finite loss; the update after it does not.
TEST(BadInput, TrainFindsWeightsThatDivergedInTheLastStep) {
  const Folder folder;
  const Outcome outcome = folder.run("train --steps 1 --lr 1e30 --save w --trace t.json" + mlp);
  expect_refused(outcome, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("diverged"), HasSubstr("after step 1")));
  EXPECT_EQ(folder.files(), 0);
}

TEST(BadInput, TrainRefusesARunWithoutAnUpdate) {
  const Folder folder;
  const Outcome outcome = folder.run(
      "train --model mlp --data digits --stages 1 --schedule adl:accumulate=5 --steps 4");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("adl:accumulate=5 reaches no update in 4 batches"));
}

// O40: whatever is missing, one message says so and what works.
TEST(BadInput, TrainSaysWhyThereIsNoGpu) {
  const Folder folder;
  const Outcome broken =
      folder.run("train --steps 1 --device cuda" + mlp, "UNLATCH_CUDA_LIBRARY=/no/such/library.so");
  expect_refused(broken);
  EXPECT_THAT(broken.err, AllOf(HasSubstr("/no/such/library.so cannot be loaded"),
                                HasSubstr("--device cpu works without it")));
  for (const char* device :
       {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:0,", "cuda:0,,1", "gpu", "cuda0"}) {
    const Outcome outcome = folder.run(fmt::format("train --steps 1 --device {}{}", device, mlp));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("must be cpu, cuda or cuda:N[,N...]")) << device;
  }
  const Outcome limit = folder.run("train --steps 1 --memory-limit 1GiB" + mlp);
  expect_refused(limit);
  EXPECT_THAT(limit.err, HasSubstr("--memory-limit is for --device cuda"));
  const Outcome nothing = folder.run("train --steps 1 --device cuda --memory-limit 0" + mlp);
  expect_refused(nothing);
  EXPECT_THAT(nothing.err, HasSubstr("--memory-limit '0': must be greater than 0"));
  const Outcome absent = folder.run("train --steps 1 --device cuda:99" + mlp);
  expect_refused(absent);
  EXPECT_THAT(absent.err, testing::AnyOf(HasSubstr("no CUDA device"), HasSubstr("no device 99"),
                                         HasSubstr("built without CUDA")));
}

TEST(BadInput, TrainLooksForTheLibrariesOfTheCudaLibraryWhereItIsTold) {
  const Folder folder;
  const std::string library = UNLATCH_SEARCH_FIRST;
  const auto train = [&](const std::string& path) {
    return folder.run(fmt::format("train --steps 1 --device cuda{}", mlp),
                      fmt::format("UNLATCH_CUDA_LIBRARY='{}' {}", library, path));
  };
  const Outcome lost = train("");
  expect_refused(lost);
  EXPECT_THAT(lost.err, AllOf(HasSubstr("libsearch_second.so.7 is not found"),
                              HasSubstr("UNLATCH_CUDA_PATH")));
  const std::string where = library.substr(0, library.rfind('/'));
  const Outcome loaded = train(fmt::format("UNLATCH_CUDA_PATH='/no/such/folder:{}'", where));
  expect_refused(loaded);
  EXPECT_THAT(loaded.err, HasSubstr("is no CUDA library of unlatch"));
}

TEST(BadInput, TrainNamesARateThatIsNotAboveZero) {
  const Folder folder;
  for (const char* rate : {"0.0", "-1", "inf", "fast"}) {
    const Outcome outcome = folder.run(fmt::format("train --steps 1 --lr {}{}", rate, mlp));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("--lr '{}': must be greater than 0", rate)));
  }
}

TEST(BadInput, RefusesDevicesWhereFilesAreRead) {
  const Folder folder;
  for (const char* command :
       {"train --schedule bp --model mlp --data text:/dev/zero", "check /dev/zero",
        "eval --model mlp --data digits --weights /dev/zero", "diff /dev/zero /dev/zero",
        "train --schedule bp --model zero.json --data digits"}) {
    const Outcome outcome = folder.run(command, "ln -sf /dev/zero zero.json;");
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("zero"), HasSubstr("it is a device"))) << command;
  }
}

TEST(BadInput, RefusesAModelThatNoMachineHolds) {
  const Folder folder;
  for (const char* command : {"train --schedule bp --steps 1", "profile"}) {
    const Outcome outcome =
        folder.run(fmt::format("{} --model mlp:hidden=1048576/1048576 --data digits", command));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("model mlp"), HasSubstr("GiB of memory")));
  }
}

// A sample's tensor can be had, those of a piece cannot.
TEST(BadInput, RefusesPiecesThatNoLibraryCounts) {
  const Folder folder;
  folder.write("wide.json", R"({"name": "m", "input": [1, 16384, 16384], "layers": [
    {"name": "pool", "kind": "global_average_pool"},
    {"name": "l", "kind": "linear", "features": 10}]})");
  for (const char* command :
       {"train --schedule gpipe --stages 2 --microbatches 2 --batch-size 16 --steps 1",
        "compare --train --schedule bp --schedule fr --stages 2 --batch-size 8 --steps 1",
        "profile --batch-size 8"}) {
    const Outcome outcome = folder.run(fmt::format("{} --data digits --model wide.json", command));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("wide.json"), HasSubstr("layer pool"),
                                   HasSubstr("8 samples"), HasSubstr("2147483647")));
  }
}

// The program waits for the pipe's other end while its limit is read.
TEST(BadInput, LimitsItsMemorySoThatTheKernelNeedNotKillIt) {
  const Folder folder;
  folder.run(
      "diff pipe pipe & exec 3>pipe; grep 'Max data size' /proc/$!/limits >limit; exec 3>&-; wait "
      "$!",
      "mkfifo pipe;");
  EXPECT_THAT(folder.read("limit"), testing::ContainsRegex("Max data size +[0-9]+ "));
}

TEST(BadInput, ShowsControlCharactersRatherThanSendThem) {
  const Folder folder;
  folder.write("run.json", R"({"sche\u001b[31mdule": "bp"})");
  for (const char* command : {"simulate run.json", "simulate --schedule \"$(printf 'a\\033[31m')\"",
                              "simulate --schedule bp --forward \"$(printf '1m\\033s')\""}) {
    const Outcome outcome = folder.run(command);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("\\x1b"), Not(HasSubstr("\x1b")))) << command;
  }
}

TEST(BadInput, ReadsEveryValueOfASwitch) {
  const Folder folder;
  expect_refused(folder.run("simulate --schedule bp --json --json=no"));
  folder.write("s.json", R"({"schedule":"bp","json":[true,false]})");
  const Outcome outcome = folder.run("simulate s.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("json: it must be true or false"));
}

TEST(BadInput, NamesTheScenarioKeyOfAnEmptyList) {
  const Folder folder;
  folder.write("s.json", R"({"schedule":"bp","forward":[]})");
  const Outcome outcome = folder.run("simulate s.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("s.json line 1, forward: the list is empty"));
}

TEST(BadInput, SuggestsNoScenarioKeyThatIsNone) {
  const Folder folder;
  folder.write("s.json", R"({"schedule":"bp","help":true})");
  const Outcome outcome = folder.run("simulate s.json");
  expect_refused(outcome);
  EXPECT_EQ(outcome.err.find("Did you mean"), std::string::npos) << outcome.err;
}

TEST(BadInput, FindsTheClosestNameInUpperCase) {
  const Folder folder;
  EXPECT_THAT(folder.run("simulate --schedule GPIPE").err, HasSubstr("Did you mean 'gpipe'?"));
}

TEST(BadInput, RefusesStalenessBeyondCounting) {
  const Folder folder;
  for (const char* staleness : {"2147483647/0", "2000000000/0", "1000001/1000001/0"}) {
    const Outcome outcome =
        folder.run(fmt::format("simulate --schedule dsp:staleness={} --stages {}", staleness,
                               staleness[7] == '/' ? 3 : 2));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("staleness of stage 0"), HasSubstr("at most 1000000")));
  }
}

// Every task and the makespan fit the nanoseconds of 64 bits, the time of all ranks does not.
TEST(BadInput, CountsTheTimeOfAllRanksBeyondSixtyFourBits) {
  const Folder folder;
  const std::string bp = "simulate --schedule bp --forward 1000000s ";
  EXPECT_EQ(folder.run(bp + "--slow 0:20").code, 0);
  const Outcome slow = folder.run(bp + "--slow 0:900");
  expect_refused(slow);
  EXPECT_THAT(slow.err, HasSubstr("longer than 292 years"));
  const json random = folder.json(bp + "--straggler lognormal:sigma=5");
  ASSERT_GT(random["makespan_ms"].get<double>(), 2.4e12);  // a quarter of 64 bits
  EXPECT_GT(random["bubble_ratio"].get<double>(), 0);
  EXPECT_LT(random["bubble_ratio"].get<double>(), 1);
}

TEST(BadInput, NamesTheFileOfANumberBeyondAll) {
  const Folder folder;
  folder.write("p.json", R"({"model": "mlp", "sample_bytes": 1e309})");
  folder.write("t.json", R"({"traceEvents": [{"ph": "X", "ts": 1e309}]})");
  for (const auto& [arguments, message] :
       {std::pair("simulate --schedule bp --profile p.json --batch-size 16", "profile 'p.json'"),
        std::pair("diff t.json t.json", "t.json: a number in it is too large")}) {
    const Outcome outcome = folder.run(arguments);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
}

TEST(BadInput, RefusesWhatIsNestedBeyondAll) {
  const Folder folder;
  constexpr int depth = 200'000;
  folder.write("x.json", fmt::format("{{\"model\": {:[>{}}{:]>{}}}}", "", depth, "", depth));
  folder.write("events.json", fmt::format("{:[>{}}{:]>{}}", "", depth, "", depth));
  for (const char* command :
       {"simulate --schedule bp --profile x.json --batch-size 4", "diff events.json events.json"}) {
    const Outcome outcome = folder.run(command);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("it is nested more than "));
  }
}

TEST(BadInput, RefusesWhatCouldNotBeCompared) {
  const Folder folder;
  ASSERT_EQ(folder.run("simulate --schedule bp --tasks t.csv").code, 0);
  const std::string text = folder.read("t.csv");
  folder.write("empty.csv", text.substr(0, text.find('\n') + 1));
  const Outcome nothing = folder.run("diff empty.csv empty.csv");
  expect_refused(nothing);
  EXPECT_THAT(nothing.err, HasSubstr("empty.csv holds no tasks"));
  expect_refused(folder.run("partition --layer-costs 2,1,1,2 --stages 3 --data digits"));
}

TEST(BadInput, EvalEndsWithOneForWeightsThatAreNone) {
  const Folder folder;
  ASSERT_EQ(folder.run("train --steps 1 --save w" + mlp).code, 0);
  std::string weights = folder.read("w");
  weights.replace(weights.size() - 4, 4, std::string("\x00\x00\xc0\x7f", 4));  // NaN
  folder.write("w", weights);
  const Outcome outcome = folder.run("eval --weights w --model mlp --data digits");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no finite number"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("the loss is not a number"), Not(HasSubstr("nan"))));
}

TEST(BadInput, MomentumIsNotAppliedTwiceToCompressedGradients) {
  const Folder folder;
  for (const std::string command :
       {"numerics --weights 0.5,0.4", "train --model mlp --data digits --stages 2 --steps 2"}) {
    const Outcome outcome = folder.run(fmt::format(
        "{} --schedule ssgd:compression=topk --replicas 2 --optimizer momentum", command));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("would apply momentum twice"));
  }
}

TEST(BadInput, WhatOptimizersAndClippingCannotDoIsSaid) {
  const Folder folder;
  for (const auto& [flags, words] : std::vector<std::pair<std::string, std::string>>{
           {"--schedule ssgd:compression=topk --replicas 2 --optimizer adam", "momentum twice"},
           {"--schedule pipedream:weights=predicted --optimizer adam", "nesterov"},
           {"--schedule fdg --clip-norm 1", "--clip-norm 1,scope=stage"},
           {"--schedule local-sgd --replicas 2 --clip-norm 1", "scope=stage"},
           {"--schedule ssd-sgd --replicas 2 --clip-norm 1,scope=stage", "cannot be clipped"},
           {"--schedule bp --clip-norm 0", "above 0"},
           {"--schedule bp --lr-scaling linear", "--lr-base-batch"},
           {"--schedule bp --lr-base-batch 64", "--lr-scaling"},
           {"--schedule bp --lr-scaling linaer --lr-base-batch 64", "linear"},
           {"--schedule bp --optimizer adam:beta3=0.9", "beta1"}}) {
    SCOPED_TRACE(flags);
    const Outcome outcome =
        folder.run(fmt::format("train --model mlp --data digits --stages 2 --steps 2 {}", flags));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr(words));
  }
}

TEST(BadInput, AChainThatDivergesIsAFailedCheck) {
  const Folder folder;
  const Outcome outcome = folder.run(
      "numerics --schedule bp --weights 1e308,1e308 --activation identity --batches 2 --json");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("diverged"));
  EXPECT_THAT(outcome.out, HasSubstr("null"));
}

TEST(BadInput, CopiesOnOneSetOfRanksNeedAStageEachOnEveryRank) {
  const Folder folder;
  ASSERT_EQ(folder.run("convert gpipe m.json --stages 1 --replicas 2").code, 0);
  std::string text = folder.read("m.json");
  const std::string replicas = ", \"replicas\": 2";
  ASSERT_NE(text.find(replicas), std::string::npos);
  text.erase(text.find(replicas), replicas.size());
  folder.write("m.json", text);
  const Outcome simulated = folder.run("simulate --schedule file:m.json");
  expect_refused(simulated);
  EXPECT_THAT(simulated.err, HasSubstr("every rank holds a stage of each"));
  const Outcome checked = folder.run("check m.json");
  EXPECT_EQ(checked.code, 2);
  EXPECT_THAT(checked.out, HasSubstr("every rank holds a stage of each"));
}

}  // namespace
}  // namespace unlatch::test
