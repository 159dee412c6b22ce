// Models of files and families, data of NumPy, augmentation and statistics, through the program.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string images = " --data synthetic:3x32x32,samples=40 --batch-size 4 --steps 2";

TEST(ModelFile, TrainsToTheBitsOfTheNameItWasWrittenFrom) {
  const Folder folder;
  const std::string name = "wrn-10-1:width=4,dropout=0.3";
  const std::string file = folder.file("m.json");
  ASSERT_EQ(folder.run(fmt::format("partition --model {} --save-model {}", name, file)).code, 0);
  for (const std::string& model : {name, file}) {
    const Outcome outcome =
        folder.run(fmt::format("train --schedule fr --stages 3 --model {}{} --save {}", model,
                               images, folder.file(model == name ? "named.st" : "read.st")));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  EXPECT_EQ(folder.read("named.st"), folder.read("read.st"));
  EXPECT_EQ(folder.json(fmt::format("partition --stages 3 --model {}", file)),
            folder.json(fmt::format("partition --stages 3 --model {}", name)));
}

TEST(ModelFile, IsRefusedWithItsPlace) {
  const Folder folder;
  folder.write("m.json", R"({"name": "m", "input": [1, 8, 8], "layers": [
    {"name": "a", "kind": "linear", "feature": 10}]})");
  const std::string file = folder.file("m.json");
  for (const char* command : {"partition --model ", "profile --data digits --model ",
                              "train --schedule bp --data digits --model "}) {
    const Outcome outcome = folder.run(command + file);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("m.json, layers[0]"), HasSubstr("'features'")));
  }
  expect_refused(folder.run("partition --model nowhere.json"));
  const Outcome both =
      folder.run("partition --layer-costs 1,2 --stages 2 --save-model " + folder.file("n.json"));
  expect_refused(both);
  EXPECT_THAT(both.err, HasSubstr("--save-model"));
  expect_refused(folder.run("partition --model gpt2 --save-model " + folder.file("n.json")));
  EXPECT_EQ(folder.files(), 1);
}

TEST(BatchNorm, NeedsMoreThanOneValueAChannel) {
  const Folder folder;
  folder.write("bn.json", R"({"name": "m", "input": [1, 8, 8], "layers": [
    {"name": "a", "kind": "linear", "features": 16}, {"name": "norm", "kind": "batch_norm"},
    {"name": "r", "kind": "relu"}, {"name": "l", "kind": "linear", "features": 10}]})");
  const auto train = [&](const char* flags) {
    return folder.run(fmt::format(
        "train --schedule gpipe --stages 2 --steps 2 --data digits --model bn.json {}", flags));
  };
  EXPECT_EQ(train("--microbatches 4 --batch-size 8").code, 0);
  for (const char* flags :
       {"--microbatches 8 --batch-size 8", "--batch-size 1",
        "--microbatches 4 --batch-size 7 --uneven yes",
        "--microbatches 4 --batch-size 8 --batch-ramp start=4,step=4,every=1"}) {
    const Outcome outcome = train(flags);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("bn.json: batch norm norm sees one value a channel"),
                                   HasSubstr("--microbatches")))
        << flags;
  }
}

// Points of a curve come from running statistics, which a recomputation may move meanwhile.
TEST(Training, RefusesACurveOnlyWhereRecomputationMovesStatistics) {
  const Folder folder;
  const std::string flags =
      " --stages 2 --steps 2 --batch-size 8 --data digits --batch-norm-updates recompute --model ";
  const auto compare = [&](const char* schedule, const char* model) {
    return folder.run(
        fmt::format("compare --train --schedule bp --schedule {}{}{}", schedule, flags, model));
  };
  EXPECT_EQ(compare("fr", "mlp").code, 0);
  EXPECT_EQ(compare("gpipe", "resnet8:width=2").code, 0);
  const Outcome compared = compare("fr", "resnet8:width=2");
  expect_refused(compared);
  EXPECT_THAT(compared.err, AllOf(HasSubstr("--train"), HasSubstr("--batch-norm-updates"),
                                  Not(HasSubstr("--evaluate-every"))));
  const Outcome trained =
      folder.run("train --schedule fr --evaluate-every epoch" + flags + "resnet8:width=2");
  expect_refused(trained);
  EXPECT_THAT(trained.err, AllOf(HasSubstr("--evaluate-every"), HasSubstr("--batch-norm-updates")));
}

TEST(NumpyData, TrainsAndIsEvaluated) {
  const Folder folder;
  const auto save = [&](const char* name, const std::string& header, const std::string& array) {
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(header.size() + 1);
    file += '\0';
    folder.write(name, file + header + '\n' + array);
  };
  std::string pixels, labels;
  for (int n = 0; n < 50; ++n) {
    labels += static_cast<char>(n % 2);
    for (int i = 0; i < 16; ++i) pixels += static_cast<char>(n % 2 == i % 2 ? 100 : n);
  }
  save("images.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (50, 4, 4), }", pixels);
  save("labels.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (50,), }", labels);
  const std::string data = " --model mlp:hidden=8 --data numpy:" + folder.path();
  const json run = folder.json("train --schedule bp --stages 2 --batch-size 8 --epochs 8" + data +
                               " --save " + folder.file("w.st"));
  EXPECT_EQ(run["test_samples"], 10);
  EXPECT_EQ(run["test_accuracy"], 1.0);
  EXPECT_EQ(folder.json("eval --weights " + folder.file("w.st") + data)["correct"], 10);
}

TEST(Augmentation, IsTheSameInEveryScheduleAndSplit) {
  const Folder folder;
  const auto weights = [&](const std::string& flags) {
    const Outcome outcome = folder.run("train --model lenet --data digits --steps 30 " + flags +
                                       " --save " + folder.file("w.st"));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return folder.read("w.st");
  };
  const std::string whole = weights("--schedule bp --stages 1 --augment crop=1,flip");
  EXPECT_EQ(weights("--schedule bp --stages 3 --augment flip,crop=1"), whole);
  EXPECT_NE(weights("--schedule bp --stages 1"), whole);
  const std::string parts = weights("--schedule gpipe --stages 2 --microbatches 4 --augment flip");
  EXPECT_EQ(weights("--schedule gpipe:recompute=always --stages 3 --microbatches 4 --augment flip"),
            parts);
}

TEST(Training, RefusesWhatIsNoAugmentationOrUpdateOfStatistics) {
  const Folder folder;
  const std::string train =
      "train --schedule dsp --stages 2 --model resnet8:width=2 --data "
      "digits --steps 1 --batch-size 4 ";
  struct Case {
    const char* flags;
    const char* message;
  };
  for (const auto& [flags, message] :
       {Case{"--augment flop", "Did you mean 'flip'"},
        {"--augment crop=x", "as in crop=4"},
        {"--batch-norm-updates sometimes", "forward, recompute or both"},
        {"--batch-norm-updates both", "side by side"}}) {
    const Outcome outcome = folder.run(train + flags);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
  EXPECT_EQ(folder.run(train + "--batch-norm-updates recompute").code, 0);
}

}  // namespace
}  // namespace unlatch::test
