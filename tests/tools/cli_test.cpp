// The command line itself: commands, flags, scenario files, messages, exit codes.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* commands[] = {"schedules",  "show",      "simulate", "compare",
                                    "stragglers", "numerics",  "train",    "eval",
                                    "profile",    "partition", "diff"};

TEST(CommandLine, HelpNamesEveryCommandAndEveryCommandHasHelpAndVersion) {
  const Folder folder;
  const Outcome all = folder.run("--help");
  EXPECT_EQ(all.code, 0);
  const Outcome version = folder.run("--version");
  EXPECT_EQ(version.code, 0);
  for (const char* command : commands) {
    EXPECT_THAT(all.out, HasSubstr(command));
    const Outcome help = folder.run(fmt::format("{} --help", command));
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out,
                AllOf(HasSubstr(fmt::format("Usage: unlatch {}", command)), HasSubstr("--json")));
    EXPECT_EQ(folder.run(fmt::format("{} --version", command)).out, version.out) << command;
  }
}

TEST(CommandLine, SuggestsTheClosestCommand) {
  const Folder folder;
  const Outcome outcome = folder.run("simulat --schedule bp");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("Did you mean 'simulate'?"));
}

TEST(CommandLine, RefusesToRunWithoutACommand) {
  const Folder folder;
  expect_refused(folder.run(""));
}

// O48: the flag; a prefix of a flag is not the flag.
TEST(CommandLine, NamesTheClosestFlagOfEachUnknownOneAtOnce) {
  const Folder folder;
  const Outcome outcome = folder.run("simulate --schedule bp --microbatch 8 --stagess=3");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("'--microbatch'"), HasSubstr("'--microbatches'"),
                                 HasSubstr("'--stagess'"), HasSubstr("'--stages'")));
}

// O48: the file.
TEST(CommandLine, NamesEveryFaultOfAScenarioFileWithItsLine) {
  const Folder folder;
  folder.write("run.json",
               "{\n\"schedule\": \"bp\",\n\"micro_batchs\": 8,\n\"stages\": 3,\n"
               "\"costs\": {\"forward\": 1},\n\"stages\": 4\n}\n");
  const Outcome outcome = folder.run("simulate run.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("run.json"), HasSubstr("line 3: unknown key 'micro_batchs'"),
                    HasSubstr("'microbatches'"), HasSubstr("line 5: unknown key 'costs'"),
                    HasSubstr("line 6: key 'stages' is given twice, first in line 4")));
}

TEST(CommandLine, SaysWhereAScenarioFileIsNotJson) {
  const Folder folder;
  folder.write("run.json", "{\"schedule\": \"bp\",\n micro_batchs: 8}\n");
  const Outcome outcome = folder.run("simulate run.json");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("line 2"));
}

TEST(CommandLine, RefusesScenarioValuesThatAreNoFlags) {
  const Folder folder;
  for (const char* text : {"[1,2]", "3", "{\"stages\":{\"a\":1}}", "{\"stages\":[[1]]}",
                           "{\"stages\":null}", "{\"json\":3}", "{\"stages\":[]}", ""}) {
    folder.write("run.json", text);
    expect_refused(folder.run("simulate run.json --schedule bp"));
  }
}

// Every setting stands in line 4.
TEST(CommandLine, NamesTheLineOfWrongScenarioValues) {
  const Folder folder;
  for (const auto& [setting, message] : std::vector<std::pair<std::string, std::string>>{
           {R"("forward": "fast")", "forward 'fast': must be"},
           {R"("forward": [1, 2])", "forward '1,2': a list of 2 values"},
           {R"("backward": "x")", "backward 'x': must be"},
           {R"("input-grad": 3)", "input-grad 3 ms of stage 0 is longer"},
           {R"("update": -1)", "update '-1': must be"},
           {R"("push": "1x")", "push '1x': unknown unit"},
           {R"("transfer": 1, "gradient-transfer": 2)", "transfer '1' sets both directions"},
           {R"("activation-transfer": "x")", "activation-transfer 'x': must be"},
           {R"("overlap": 2)", "overlap '2': must be"},
           {R"("slow": "1")", "slow '1': must be RANK:FACTOR"},
           {R"("slow": "9:2")", "slow, rank '9': must be"},
           {R"("slow": ["1:2", "1:3"])", "slow names rank 1 twice"},
           {R"("slow-link": "1-1:2")", "slow-link '1-1:2': a link joins two ranks"},
           {R"("slow-link": ["0-1:2", "1-0:2"])", "slow-link names ranks 0 and 1 twice"},
           {R"("pause": "0:1ms")", "pause '0:1ms': must be RANK:AT:TIME"},
           {R"("pause": "0:1ms:x")", "pause, time 'x': must be"},
           {R"("straggler": "radnom")", "straggler 'radnom': unknown kind"},
           {R"("straggler": "random:factor=0")", "straggler 'random:factor=0': factor '0': must"},
           {R"("ranks": 2)", "ranks 2: every rank holds"},
           {R"("chunks": 2)", "chunks 2: every rank holds"},
           {R"("batch-size": 3, "cluster": "4xP40", "microbatches": 2)",
            "batch-size 3 is not divisible by run.json line 4, microbatches 2"}}) {
    SCOPED_TRACE(setting);
    folder.write("run.json", "{\n\"schedule\": \"gpipe\",\n\"stages\": 3,\n" + setting + "\n}\n");
    const Outcome outcome = folder.run("simulate run.json");
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("run.json line 4, " + message));
  }
}

struct WrongValue {
  const char* command;
  const char* setting;
  const char* message;
};

// Whatever reads a value, its error begins with the file and the line, here the second.
TEST(CommandLine, NamesTheLineOfValuesThatOthersRead) {
  const Folder folder;
  const std::string of_cluster = R"("schedule": "bp", "stages": 2, "batch-size": 8)";
  const std::string of_training = R"("schedule": "bp", "stages": 2, "data": "digits", "steps": 1)";
  const std::string on_4xP40 = of_cluster + R"(, "cluster": "4xP40")";
  const auto rest_of = [&](const WrongValue& wrong) {
    const std::string_view command = wrong.command;
    if (command == "cluster") return of_cluster;
    if (command == "simulate") return on_4xP40 + R"(, "model": "lenet")";
    if (command == "train") return of_training + R"(, "model": "mlp")";
    return std::string();
  };
  folder.write("not.json", "x");
  for (const WrongValue& wrong : std::vector<WrongValue>{
           {"search", R"("schedule": "1f2b", "cluster": "4xP40", "batch-size": 8, "model": "mlp")",
            "schedule: unknown schedule '1f2b'"},
           {"show", R"("schedule": "dsp:staleness=1/2/0", "stages": 2)", "schedule: "},
           {"compare", R"("schedule": ["bp", "file:none.csv"])",
            "schedule: cannot read 'none.csv'"},
           {"simulate", R"("schedule": ["bp", "gpipe"])", "schedule is given 2 times"},
           {"simulate", R"("runs": 3)", "runs 3 without --straggler"},
           {"simulate", R"("schedule": "bp", "profile": "not.json")", "profile needs --batch-size"},
           {"simulate", R"("schedule": "bp", "profile": "not.json", "batch-size": 4)",
            "profile 'not.json', line 1: this is not JSON"},
           {"simulate", R"("schedule": "bp", "cluster": "4xP40", "model": "mlp")",
            "cluster needs --batch-size"},
           {"cluster", R"("cluster": "4xP41", "model": "mlp")", "cluster '4xP41': neither"},
           {"cluster", R"("cluster": "not.json", "model": "mlp")", "cluster: not.json, line 1"},
           {"cluster", R"("model": "lenett", "cluster": "4xP40")", "model: unknown model 'lenett'"},
           {"cluster", R"("data": "digit", "model": "mlp", "cluster": "4xP40")",
            "data: unknown data set 'digit'"},
           {"simulate", R"("optimizer": "sdg")", "optimizer: unknown optimizer 'sdg'"},
           {"simulate", R"("placement": [0, 4])", "placement: 4x P40, PCIe: there is no device 4"},
           {"simulate", R"("placement": [0])", "placement '0': 2 ranks, but it names 1 device"},
           {"simulate", R"("partition": "0/2")", "partition '0/2'"},
           {"simulate", R"("tasks": "none/t.csv")", "tasks: cannot write 'none/t.csv'"},
           {"train", R"("optimizer": "")", "optimizer '': the name is missing"},
           {"train", R"("lr-schedule": "linea")", "lr-schedule: "},
           {"train", R"("lr-base-batch": 3)", "lr-base-batch needs --lr-scaling"},
           {"train", R"("clip-norm": -1)", "clip-norm: clip norm '-1'"},
           {"train", R"("resume": "none")", "resume none: there is no such folder"},
           {"train", R"("save": "none/w")", "save: cannot write 'none/w'"},
           {"eval", R"("weights": "none", "data": "digits", "model": "mlp")",
            "weights: none: cannot be opened"},
       }) {
    SCOPED_TRACE(wrong.setting);
    const bool is_whole = std::string_view(wrong.setting).starts_with("\"schedule\"") ||
                          std::string_view(wrong.command) == "eval";
    const std::string rest = is_whole ? "" : rest_of(wrong);
    folder.write("run.json",
                 fmt::format("{{\n{}{}\n{}}}\n", wrong.setting, rest.empty() ? "" : ",", rest));
    const std::string command =
        std::string_view(wrong.command) == "cluster" ? "simulate" : wrong.command;
    const Outcome outcome = folder.run(command + " run.json");
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("error: run.json line 2, {}", wrong.message)));
  }
  folder.write("run.json", R"({"cluster": "4xP40", "batch-size": 8, "schedule": "bp"})");
  EXPECT_THAT(folder.run("simulate run.json").err, HasSubstr("error: run.json: --model NAME is"));
  // A flag's own message stays, beside a scenario file, too.
  EXPECT_THAT(folder.run("simulate run.json --cluster 4xP41").err,
              HasSubstr("error: --cluster '4xP41': neither"));
}

TEST(CommandLine, ReadsListsAndSwitchesFromAScenarioAndLetsFlagsWin) {
  const Folder folder;
  folder.write("run.json", R"({"schedule":["1f1b","gpipe"],"stages":3,"forward":[1,2,1.5],
                               "drain":true,"json":true,"microbatches":4})");
  const auto file = folder.json("compare run.json --microbatches 6");
  const auto flags = folder.json(
      "compare --schedule 1f1b --schedule gpipe --stages 3 --forward 1,2,1.5 --microbatches 6");
  EXPECT_EQ(file, flags);
  EXPECT_EQ(file["schedules"].size(), 2u);
}

TEST(CommandLine, TakesASingleValuedFlagOnce) {
  const Folder folder;
  const Outcome outcome = folder.run("simulate --schedule bp --stages 2 --stages 3");
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--stages"), HasSubstr("'2'"), HasSubstr("'3'")));
  expect_refused(folder.run("simulate --schedule bp --schedule gpipe"));
  expect_refused(folder.run("simulate --schedule bp --json=3"));
  expect_refused(folder.run("simulate bp"));
  expect_refused(folder.run("simulate --schedule"));
}

struct BadValue {
  const char* arguments;
  const char* setting;  ///< what the message names
  const char* rule;     ///< a word of the rule
};

class NonsenseValues : public testing::TestWithParam<BadValue> {};

// O49, and every other flag that takes a value.
TEST_P(NonsenseValues, AreRefusedWithSettingValueAndRule) {
  const Folder folder;
  const Outcome outcome = folder.run(GetParam().arguments);
  expect_refused(outcome);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(GetParam().setting), HasSubstr(GetParam().rule),
                                 Not(HasSubstr("bad_alloc")), Not(HasSubstr("assert"))));
}

INSTANTIATE_TEST_SUITE_P(
    Simulate, NonsenseValues,
    testing::Values(
        BadValue{"simulate --schedule 1f1b --microbatches 0", "--microbatches '0'", "whole number"},
        BadValue{"simulate --schedule 1f1b --microbatches -1", "--microbatches '-1'", "whole"},
        BadValue{"simulate --schedule 1f1b --microbatches 2.5", "--microbatches '2.5'", "whole"},
        BadValue{"simulate --schedule 1f1b --microbatches ''", "--microbatches ''", "whole"},
        BadValue{"simulate --schedule 1f1b --microbatches=", "--microbatches ''", "whole"},
        BadValue{"simulate --schedule 1f1b --ranks 0", "--ranks '0'", "whole number"},
        BadValue{"simulate --schedule 1f1b --stages 0", "--stages '0'", "whole number"},
        BadValue{"simulate --schedule 1f1b --ranks 1000000000", "--ranks '1000000000'", "1.."},
        BadValue{"simulate --schedule 1f1b --stages 1000000 --microbatches 1000", "1000000 stages",
                 "tasks"},
        BadValue{"simulate --schedule 1f1b --microbatches 100000 --batches 100000",
                 "--microbatches 100000", "at most"},
        BadValue{"simulate --schedule 1f1b --stages 4 --ranks 3", "--stages 4", "--ranks 3"},
        BadValue{"simulate --schedule 1f1b --stages 4 --ranks 2 --chunks 1", "--chunks 1",
                 "contradict"},
        BadValue{"simulate --schedule 1f1b --batches 1e3", "--batches '1e3'", "whole number"},
        BadValue{"simulate --schedule gpipe --batch-size 10 --microbatches 4", "10",
                 "not divisible"},
        BadValue{"simulate --schedule gpipe --forward -1", "--forward '-1'", "finite"},
        BadValue{"simulate --schedule gpipe --backward nan", "--backward 'nan'", "finite"},
        BadValue{"simulate --schedule gpipe --update inf", "--update 'inf'", "finite"},
        BadValue{"simulate --schedule gpipe --recompute 1,5", "--recompute '1,5'", "dot"},
        BadValue{"simulate --schedule gpipe --transfer 3min", "--transfer '3min'", "ms"},
        BadValue{"simulate --schedule gpipe --backward 3 --input-grad 1 --weight-grad 1",
                 "--backward", "B = I + W"},
        BadValue{"simulate --schedule dsp --overlap 1.5", "--overlap '1.5'", "number"},
        BadValue{"simulate --schedule gpipe:staleness=2", "staleness", "synchronous"},
        BadValue{"simulate --schedule gpip", "'gpip'", "gpipe"},
        BadValue{"simulate --schedule ddg:form=lockstap", "lockstap", "lockstep"},
        BadValue{"simulate --schedule fdg:shrink=2", "shrink", "1"},
        BadValue{"simulate --schedule dsp:staleness=4/2/1 --stages 3", "staleness", "0"},
        BadValue{"simulate --schedule dsp:staleness=4/0 --stages 3", "staleness", "3 stages"},
        BadValue{"simulate --schedule bp --drain maybe", "--drain 'maybe'", "yes or no"},
        BadValue{"simulate --schedule bp --seed -4", "--seed '-4'", "whole number"},
        BadValue{"simulate --schedule bp --slow 4:2", "--slow, rank '4'", "0..3"},
        BadValue{"simulate --schedule bp --slow 1:-2", "--slow, factor '-2'", "number"},
        BadValue{"simulate --schedule bp --slow-link 0-4:2", "--slow-link, rank '4'", "0..3"},
        BadValue{"simulate --schedule bp --slow-link 0-1:2 --slow-link 1-0:3", "--slow-link",
                 "ranks 0 and 1 twice"},
        BadValue{"simulate --schedule bp --pause 0:1", "--pause '0:1'", "RANK:AT:TIME"},
        BadValue{"simulate --schedule bp --straggler lognormal:on=nodes", "on=nodes", "node=N"},
        BadValue{"simulate --schedule bp --straggler pause:every=1s", "pause:every=1s", "time=T"},
        BadValue{"simulate --schedule bp --straggler randm", "randm", "random"},
        BadValue{"simulate --schedule bp --runs 0", "--runs '0'", "whole number"},
        BadValue{"simulate --schedule bp --runs 5", "--runs 5", "--straggler"},
        BadValue{"simulate --schedule bp --activation-size 1gib", "--activation-size '1gib'",
                 "GiB"},
        BadValue{"simulate --schedule bp --memory-limit -3", "--memory-limit '-3'", "size"},
        BadValue{"simulate --schedule bp --critical-path none", "--critical-path 'none'", "whole"},
        BadValue{"simulate --schedule bp --profile nothing.json --batch-size 8", "nothing.json",
                 "cannot read"},
        BadValue{"simulate --schedule bp --trace /nowhere/x.json", "/nowhere/x.json",
                 "cannot write"},
        BadValue{"simulate --schedule bp --tasks /dev/full", "/dev/full", "No space"}));

INSTANTIATE_TEST_SUITE_P(
    OtherCommands, NonsenseValues,
    testing::Values(
        BadValue{"show nothing", "'nothing'", "unknown schedule"},
        BadValue{"compare --schedule bp --report /nowhere/r.html", "/nowhere/r.html",
                 "cannot write"},
        BadValue{"compare --schedule bp --trace-dir /dev/null/x", "--trace-dir", "directory"},
        BadValue{"numerics --schedule bp", "--weights", "needed"},
        BadValue{"numerics --schedule bp --weights 1,x", "'x'", "number"},
        BadValue{"numerics --schedule bp --weights 1 --x 1", "--x", "--y"},
        BadValue{"numerics --schedule bp --weights 1,1 --stages 3", "--stages '3'", "1..2"},
        BadValue{"numerics --schedule bp --weights 1 --microbatches 2", "--microbatches 2",
                 "one piece"},
        BadValue{"numerics --schedule gpipe --weights 1 --activation relu", "'relu'", "tanh"},
        BadValue{"numerics --schedule gpipe --weights 1 --lr -1", "--lr '-1'", "number"},
        BadValue{"partition --stages 2", "--model", "--layer-costs"},
        BadValue{"partition --layer-costs 1,1,1,1,1 --stages 6", "5 layers", "6 stages"},
        BadValue{"partition --layer-costs 1,1 --stages 2 --partition 3/x", "3/x", "auto"},
        BadValue{"partition --model lenett --stages 2", "lenett", "lenet"},
        BadValue{"diff one.json", "two files", "PREDICTED"},
        BadValue{"diff one.json two.json", "one.json", "cannot read"},
        BadValue{"eval --model mlp --data digits --weights nothing", "nothing", "cannot"},
        BadValue{"eval --model mlp --data digits", "--weights", "needed"},
        BadValue{"profile --model mlp --batch-size 0", "--batch-size '0'", "whole number"},
        BadValue{"train --schedule bp --model mlp", "--data", "needed"},
        BadValue{"train --schedule bp --data digits", "--model", "needed"},
        BadValue{"train --schedule bp --model mlp --data digit", "'digit'", "digits"},
        BadValue{"train --schedule bp --model mlp --data digits --batch-size 2000",
                 "--batch-size 2000", "samples"},
        BadValue{"train --schedule gpipe --model mlp --data digits --batch-size 10 "
                 "--microbatches 4",
                 "10", "not divisible"},
        BadValue{"train --schedule bp --model mlp --data digits --stages 99", "99 stages",
                 "layers"},
        BadValue{"train --schedule bp --model mlp --data digits --epochs 1 --steps 2", "--epochs",
                 "--steps"},
        BadValue{"train --schedule bp --model mlp --data digits --optimizer adm", "adm", "sgd"},
        BadValue{"train --schedule bp --model mlp --data digits --save /nowhere/w", "/nowhere/w",
                 "cannot write"}));

TEST(CommandLine, FailsWhenStandardOutputIsFullOrClosed) {
  const Folder folder;
  for (const char* redirection : {">/dev/full", ">&-"}) {
    const Outcome outcome = folder.run(fmt::format("simulate --schedule bp {}", redirection));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("error: cannot write to standard output"));
  }
  // A file must not end up on the closed stream's number.
  const Outcome closed = folder.run("simulate --schedule bp --trace t.json --json >&-");
  EXPECT_EQ(closed.code, 2);
  EXPECT_FALSE(nlohmann::json::parse(folder.read("t.json"), nullptr, false).is_discarded());
}

TEST(CommandLine, NeverColoursWhatIsNoTerminal) {
  const Folder folder;
  EXPECT_THAT(folder.run("schedules").out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(folder.run("nonsense").err, Not(HasSubstr("\x1b")));
}

TEST(CommandLine, PrintsTheSameNumbersInEveryLocale) {
  const Folder folder;
  const std::string arguments = "simulate --schedule dsp --forward 0.5 --batches 8 --json";
  EXPECT_EQ(folder.run(arguments, "LC_ALL=de_DE.UTF-8").out, folder.run(arguments).out);
}

TEST(Schedules, ListsEveryMethodOnceInEachForm) {
  const Folder folder;
  const auto json = folder.json("schedules");
  const std::string text = folder.run("schedules").out;
  const std::string markdown = folder.run("schedules --markdown").out;
  EXPECT_GE(json["schedules"].size(), 7u);
  for (const auto& schedule : json["schedules"]) {
    const auto name = schedule["name"].get<std::string>();
    EXPECT_THAT(text, HasSubstr(name));
    EXPECT_THAT(markdown, HasSubstr(fmt::format("| {} |", name)));
  }
}

TEST(Partition, PrintsRangesThatCoverEveryLayer) {
  const Folder folder;
  const auto json = folder.json("partition --layer-costs 2,1,1,1,1,2 --stages 4");
  ASSERT_EQ(json["stages"].size(), 4u);
  EXPECT_EQ(
      json["stages"][0],
      (nlohmann::json{{"stage", 0}, {"first", 0}, {"last", 0}, {"layers", 1}, {"cost", 2.0}}));
  EXPECT_EQ(json["stages"][1]["last"], 2);
  EXPECT_EQ(json["bottleneck_stage"], 0);
  EXPECT_EQ(json["total_layers"], 6);
  const auto uniform = folder.json("partition --layer-costs 1,9,1 --stages 2 --partition uniform");
  EXPECT_EQ(uniform["stages"][0]["layers"], 2);
  const auto model = folder.json("partition --model lenet --stages 3");
  EXPECT_EQ(model["stages"][2]["last"].get<int>() + 1, model["total_layers"]);
}

}  // namespace
}  // namespace unlatch::test
