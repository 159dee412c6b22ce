// --device cuda where the library's device is none: what the program makes of a device's times.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

const std::string mlp = " --model mlp --data digits";
constexpr const char* on_fake_gpu = "UNLATCH_CUDA_LIBRARY=" UNLATCH_FAKE_DEVICE;

/// The profile that `unlatch profile --device cuda` leaves in p.json.
json profiled(const Folder& folder, const std::string& arguments) {
  const Outcome outcome =
      folder.run(fmt::format("profile --device cuda {} --save p.json", arguments), on_fake_gpu);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("on Fake GPU: means of"),
                                 HasSubstr("a layer's times hold its launch")));
  return json::parse(folder.read("p.json"), nullptr, false);
}

double mean_us(const json& times) { return times["mean"].get<double>(); }

TEST(DeviceCli, ProfilesEveryLayerOfEveryModel) {
  const Folder folder;
  for (const char* model : {"mlp", "lenet", "resnet20", "resnet18:input=data,width=8"}) {
    SCOPED_TRACE(model);
    const json file = profiled(
        folder, fmt::format("--model {} --data digits --batch-size 4,8 --samples 2 --warm-up 1 "
                            "--precision tf32",
                            model));
    EXPECT_EQ(file["device"], "Fake GPU");
    EXPECT_EQ(file["precision"], "tf32");
    EXPECT_FALSE(file.contains("handovers"));
    ASSERT_EQ(file["profiles"].size(), 2U);
    for (const json& profile : file["profiles"]) {
      EXPECT_EQ(profile["samples"], 2);
      EXPECT_EQ(profile["left_out"], 1);
      EXPECT_EQ(mean_us(profile["input_us"]), 30);
      EXPECT_EQ(mean_us(profile["loss_us"]), 20);
      for (const json& layer : profile["layers"]) {
        EXPECT_EQ(mean_us(layer["forward_us"]), 100);
        EXPECT_EQ(mean_us(layer["forward_only_us"]), 80);
        EXPECT_EQ(mean_us(layer["backward_us"]), 200);
        EXPECT_EQ(mean_us(layer["input_gradient_us"]), 110);
        EXPECT_EQ(mean_us(layer["weight_gradient_us"]), 90);
        EXPECT_EQ(mean_us(layer["update_us"]), 10);
      }
    }
  }
}

// What is predicted from the profile is the sum of the times chosen: of 5 layers.
TEST(DeviceCli, SimulatesFromADevicesProfile) {
  const Folder folder;
  const json file = profiled(folder, "--batch-size 16 --samples 2" + mlp);
  ASSERT_EQ(file["profiles"][0]["layers"].size(), 5U);
  const auto makespan_us = [&](const std::string& schedule) {
    return 1e3 * folder
                     .json(fmt::format("simulate --schedule {} --stages 1 --profile p.json "
                                       "--batch-size 16",
                                       schedule))["makespan_ms"]
                     .get<double>();
  };
  EXPECT_DOUBLE_EQ(makespan_us("bp"), 5 * (100 + 200 + 10) + 30 + 20);
  EXPECT_DOUBLE_EQ(makespan_us("zb-h1"), 5 * (100 + 110 + 90 + 10) + 30 + 20);
  EXPECT_DOUBLE_EQ(makespan_us("gpipe:recompute=always"), 5 * (80 + 100 + 200 + 10) + 30 + 20)
      << "the input and the loss are not computed again";
  const Outcome more =
      folder.run("simulate --schedule bp --stages 2 --profile p.json --batch-size 16");
  EXPECT_THAT(more.err, HasSubstr("the profile is of one Fake GPU"));
  const Outcome threads =
      folder.run("simulate --schedule bp --stages 2 --profile p.json --batch-size 16 --threads 2");
  expect_refused(threads);
  EXPECT_THAT(threads.err, HasSubstr("the profile is of a Fake GPU"));
}

// R has no processor of its own there, however many cores this machine has.
TEST(DeviceCli, HidesNoRecomputeBesideAForward) {
  const Folder folder;
  profiled(folder, "--batch-size 16 --samples 2" + mlp);
  const auto makespan = [&](const std::string& flags) {
    return folder
        .json(
            "simulate --schedule dsp --stages 2 --partition 4/1 --batches 8 --profile p.json "
            "--batch-size 16 " +
            flags)["makespan_ms"]
        .get<double>();
  };
  EXPECT_EQ(makespan(""), makespan("--overlap 0"));
  EXPECT_GT(makespan(""), makespan("--overlap 1"));
}

TEST(DeviceCli, TrainsAndPredictsOnADevice) {
  const Folder folder;
  profiled(folder, "--batch-size 16 --samples 2" + mlp);
  const std::string train =
      "train --schedule bp --stages 1 --steps 3 --batch-size 16 --profile p.json --json" + mlp;
  const Outcome outcome = folder.run(train + " --device cuda", on_fake_gpu);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  EXPECT_EQ(result["device"], "Fake GPU");
  EXPECT_EQ(result["predicted"]["batch_period_ms"], 1.6);
  EXPECT_DOUBLE_EQ(result["measured"]["makespan_ms"].get<double>(), 3 * 0.36);
  EXPECT_EQ(outcome.err.find("note"), std::string::npos) << outcome.err;
  EXPECT_THAT(folder.run(train).err, HasSubstr("the run is on cpu, the profile that predicts it is "
                                               "of Fake GPU"));
}

TEST(DeviceCli, ProfileRefusesWhatAGpuHasNot) {
  const Folder folder;
  const auto refused = [&](const std::string& flags, const auto& message) {
    SCOPED_TRACE(flags);
    const Outcome outcome = folder.run("profile --samples 1 --save p.json " + flags + mlp);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, message);
    EXPECT_EQ(folder.files(), 0);
  };
  refused("--device cuda:0,1",
          HasSubstr("--device 'cuda:0,1': one GPU is profiled at a time; name one"));
  refused("--device cuda --workers 2", HasSubstr("--workers counts threads of the CPU"));
  refused("--precision tf32", HasSubstr("--precision is for --device cuda"));
  refused("--device gpu", HasSubstr("must be cpu, cuda or cuda:N[,N...]"));
  refused("--device cuda:99", AnyOf(HasSubstr("no CUDA device"), HasSubstr("no device 99"),
                                    HasSubstr("built without CUDA")));
  const Outcome absent = folder.run("profile --device cuda:2" + mlp, on_fake_gpu);
  expect_refused(absent);
  EXPECT_THAT(absent.err, HasSubstr("there is no device 2; CUDA counts 2 devices"));
}

TEST(DeviceCli, TrainRefusesWhatDoesNotGoTogether) {
  const Folder folder;
  const auto refused = [&](const std::string& flags, const auto& message) {
    SCOPED_TRACE(flags);
    const Outcome outcome = folder.run(
        "train --schedule gpipe --stages 2 --microbatches 2 --steps 1 --save w " + flags + mlp,
        on_fake_gpu);
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, message);
    EXPECT_EQ(folder.files(), 0);
  };
  for (const char* option : {"share-device yes", "transport nccl", "precision bf16",
                             "cuda-graph yes", "memory-limit 1GiB"}) {
    const std::string flag = fmt::format("--{}", option);
    refused(flag,
            HasSubstr(fmt::format("{} is for --device cuda", flag.substr(0, flag.find(' ')))));
  }
  refused("--loss-scale 64", HasSubstr("--loss-scale is for --precision fp16"));
  refused("--device cuda:0,1 --precision bf16 --loss-scale 64",
          HasSubstr("--loss-scale is for --precision fp16"));
  refused("--device cuda:0,1 --precision fp16 --loss-scale 0.5", HasSubstr("--loss-scale"));
  refused("--device cuda:0,1 --precision fp17", HasSubstr("must be one of fp32, tf32, bf16, fp16"));
  refused("--deterministic maybe", HasSubstr("--deterministic 'maybe'"));
  refused("--device cuda:0,1 --transport mpi", HasSubstr("must be one of peer, nccl"));
  refused("--device cuda --share-device yes --transport nccl",
          HasSubstr("all ranks are on device 0, and NCCL moves tensors between devices"));
  refused("--device cuda:1,1 --share-device yes --transport nccl", HasSubstr("are on device 1"));
}

// O40: device lists that cannot work, and those that can.
TEST(DeviceCli, RanksShareADeviceOnlyWhereTheyMay) {
  const Folder folder;
  const auto train = [&](const std::string& flags) {
    return folder.run(
        "train --schedule gpipe --stages 4 --microbatches 4 --steps 2 --json " + flags + mlp,
        on_fake_gpu);
  };
  const Outcome alone = train("--device cuda");
  expect_refused(alone);
  EXPECT_THAT(alone.err, AllOf(HasSubstr("ranks 0, 1, 2, 3 would all be on device 0 (Fake GPU)"),
                               HasSubstr("--share-device yes")));
  const Outcome pairs = train("--device cuda:1,0,1,0");
  expect_refused(pairs);
  EXPECT_THAT(pairs.err, HasSubstr("ranks 0, 2 would all be on device 1"));
  const Outcome few = train("--device cuda:1,0");
  expect_refused(few);
  EXPECT_THAT(few.err, HasSubstr("--device names 2 devices for 4 ranks"));
  for (const char* devices : {"cuda:1,0", "cuda:1,0,1,0,1"}) {
    const Outcome shared = train(fmt::format("--device {} --share-device yes", devices));
    expect_refused(shared);
    EXPECT_THAT(shared.err, HasSubstr("devices for 4 ranks; name one for all, or one for each"));
  }
  const Outcome beyond = train("--device cuda:0,1,2,3");
  expect_refused(beyond);
  EXPECT_THAT(beyond.err, HasSubstr("there is no device 2; CUDA counts 2 devices, from 0"));
  const Outcome shared = train("--device cuda --share-device yes");
  ASSERT_EQ(shared.code, 0) << shared.err;
  const Outcome mixed = train("--device cuda:1,0,1,0 --share-device yes");
  ASSERT_EQ(mixed.code, 0) << mixed.err;
  EXPECT_EQ(json::parse(shared.out)["test_loss"], json::parse(mixed.out)["test_loss"]);
}

// Files from before profiles named their device are of the CPU.
TEST(DeviceCli, ReadsProfilesThatNameNoDevice) {
  const Folder folder;
  json file = profiled(folder, "--batch-size 16 --samples 2" + mlp);
  file.erase("device");
  file.erase("precision");
  folder.write("p.json", file.dump());
  const Outcome outcome =
      folder.run("simulate --schedule bp --stages 2 --profile p.json --batch-size 16");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("at most 1 workers"));
}

}  // namespace
}  // namespace unlatch::test
