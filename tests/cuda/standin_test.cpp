// The whole CUDA library with stand-ins for CUDA's own: its host side runs, on a machine without a
// GPU. No test here says anything of a real device.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <sstream>
#include <vector>

#include "tests/cuda/standin_program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

/// Of a safetensors file: eight bytes with the length of what comes before the numbers.
std::vector<float> numbers(const std::string& file) {
  std::uint64_t header = 0;
  if (file.size() < sizeof(header)) return {};
  std::memcpy(&header, file.data(), sizeof(header));
  const std::string_view data = std::string_view(file).substr(sizeof(header) + header);
  std::vector<float> values(data.size() / sizeof(float));
  std::memcpy(values.data(), data.data(), values.size() * sizeof(float));
  return values;
}

/// Relative to the largest number.
double difference(const std::string& a, const std::string& b) {
  const std::vector<float> found = numbers(a), expected = numbers(b);
  EXPECT_EQ(found.size(), expected.size());
  if (found.size() != expected.size() || found.empty()) return INFINITY;
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i])) return INFINITY;
    most = std::max(most, std::abs(static_cast<double>(found[i]) - expected[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return most / largest;
}

/// After `name`, as in "2 captured, 36 launched again".
int count_before(const std::string& text, const std::string& name) {
  const std::size_t end = text.find(name);
  if (end == std::string::npos) return -1;
  const std::size_t begin = text.rfind(' ', end - 2);
  return std::atoi(text.c_str() + begin);
}

constexpr double tolerance = 1e-5;  // sums in another order
const std::vector<std::string> schedules = {"bp",        "gpipe",
                                            "1f1b",      "ddg",
                                            "fr",        "fdg",
                                            "dsp",       "zb-h1",
                                            "pipedream", "dgl",
                                            "dni",       "dni:conditional=yes",
                                            "dfa",       "pipedream:weights=latest,correct=0.5"};

TEST(StandIn, TrainsByEveryScheduleOnOneDeviceAndOnMany) {
  for (const std::string& schedule : schedules) {
    for (const int stages : {1, 2, 4}) {
      SCOPED_TRACE(fmt::format("{} on {} stages", schedule, stages));
      const std::string what = fmt::format(
          "--schedule {} --stages {} --microbatches 4 --steps 8 {}", schedule, stages, lenet);
      const std::string found = trained("seed=1", fmt::format("{} {}", what, on_one));
      EXPECT_LT(difference(found, trained("", what)), tolerance);
      if (stages == 1) continue;
      EXPECT_EQ(trained("devices=4,seed=2", fmt::format("{} {}", what, apart(stages))), found);
    }
  }
}

/// Several stages a rank, several ranks a device, copies of the model.
TEST(StandIn, TrainsWithEveryPlacement) {
  struct Case {
    const char* schedule;
    std::string devices;
  };
  for (const auto& [schedule, devices] : {
           Case{"interleaved-1f1b --stages 4 --ranks 2", apart(2)},
           Case{"zb-v --stages 4 --ranks 2", apart(2)},
           Case{"dualpipe --stages 4", apart(4)},
           Case{"chimera --stages 2", apart(2)},
           Case{"ssgd:inside=zb-v --stages 4 --ranks 2 --replicas 2", apart(4)},
           Case{"ssgd:inside=1f1b --stages 2 --replicas 2",
                "--device cuda:0,1,1,0 --share-device yes"},
           Case{"dsp --stages 4", "--device cuda:3,1,3,1 --share-device yes"},
       }) {
    SCOPED_TRACE(schedule);
    const std::string what =
        fmt::format("--schedule {} --microbatches 8 --steps 8 {}", schedule, lenet);
    const std::string found = trained("seed=1", fmt::format("{} {}", what, on_one));
    EXPECT_LT(difference(found, trained("", what)), tolerance);
    EXPECT_EQ(trained("devices=4,seed=2", fmt::format("{} {}", what, devices)), found);
    EXPECT_EQ(trained("devices=4,seed=3",
                      fmt::format("{} {} --transport nccl --cuda-graph yes", what, devices)),
              found);
  }
}

/// One norm over the stages of all devices; every stage's own.
TEST(StandIn, ClipsGradientsAsTheCpuDoes) {
  struct Case {
    const char* flags;
    std::string devices;
  };
  for (const auto& [flags, devices] :
       {Case{"--schedule 1f1b --stages 4 --clip-norm 0.05", apart(4)},
        Case{"--schedule zb-v --stages 4 --ranks 2 --clip-norm 0.05", apart(2)},
        Case{"--schedule ssgd:inside=1f1b --stages 2 --replicas 2 --clip-norm 0.05", apart(4)},
        Case{"--schedule fdg --stages 2 --clip-norm 0.02,scope=stage", apart(2)}}) {
    SCOPED_TRACE(flags);
    const std::string what = fmt::format("{} --microbatches 4 --steps 8 {}", flags, lenet);
    const std::string found = trained("seed=1", fmt::format("{} {}", what, on_one));
    EXPECT_LT(difference(found, trained("", what)), tolerance);
    EXPECT_EQ(trained("devices=4,seed=2", fmt::format("{} {}", what, devices)), found);
    EXPECT_EQ(trained("devices=4,seed=3",
                      fmt::format("{} {} --transport nccl --cuda-graph yes", what, devices)),
              found);
  }
}

/// State and tables of an optimizer follow a server's weights from device to device.
TEST(StandIn, MovesTheStateOfAnOptimizerWithAServersWeights) {
  const std::string what =
      "--schedule asgd --replicas 2 --stages 2 --steps 8 --model lenet --data digits "
      "--batch-size 16 --lr 0.01 --partition uniform --optimizer lamb";
  const std::string found = trained("seed=1", fmt::format("{} {}", what, on_one));
  EXPECT_LT(difference(found, trained("", what)), tolerance);
  EXPECT_EQ(trained("devices=4,seed=2", fmt::format("{} {}", what, apart(4))), found);
}

TEST(StandIn, GivesTheSameBitsInEveryOrderOfItsStreams) {
  for (const char* schedule : {"dsp", "fdg", "zb-h1", "gpipe:recompute=always"}) {
    SCOPED_TRACE(schedule);
    const std::string what = fmt::format(
        "--schedule {} --stages 3 --microbatches 2 --steps 10 {} {}", schedule, lenet, on_one);
    const std::string expected = trained("seed=1", what);
    for (int seed = 2; seed < 8; ++seed) {
      EXPECT_EQ(trained(fmt::format("seed={}", seed), what), expected) << "seed " << seed;
    }
  }
}

TEST(StandIn, TransformersKeepTheirBitsInEveryOrderOfTheStreamsAndInGraphs) {
  const std::string model = fmt::format(
      "--model transformer:layers=2,width=12,heads=3,sequence=8 --data text:{}/LICENSE "
      "--batch-size 8 --lr 0.05 --partition uniform",
      UNLATCH_SOURCE_DIR);
  for (const char* schedule : {"gpipe:recompute=always", "zb-h1", "dsp"}) {
    SCOPED_TRACE(schedule);
    const std::string run =
        fmt::format("--schedule {} --stages 3 --microbatches 2 --steps 40 {}", schedule, model);
    const std::string what = fmt::format("{} {}", run, on_one);
    const std::string expected = trained("seed=1", what);
    EXPECT_LT(difference(expected, trained("", run)), tolerance);
    for (int seed = 2; seed < 4; ++seed) {
      EXPECT_EQ(trained(fmt::format("seed={}", seed), what), expected) << "seed " << seed;
    }
    EXPECT_EQ(trained("seed=4", fmt::format("{} --cuda-graph yes", what)), expected);
  }
}

TEST(StandIn, LaunchesGraphsAndSendsByNcclWithTheSameBits) {
  for (const std::string& schedule : schedules) {
    SCOPED_TRACE(schedule);
    const std::string what =
        fmt::format("--schedule {} --stages 2 --microbatches 2 --steps 60 {}", schedule, lenet);
    const std::string expected = trained("seed=3", fmt::format("{} {}", what, on_one));
    const std::string two = apart(2);
    std::string said;
    EXPECT_EQ(trained("seed=4", fmt::format("{} {} --cuda-graph yes", what, on_one), &said),
              expected);
    EXPECT_GT(count_before(said, "launched again"), 10) << said;
    EXPECT_EQ(trained("devices=2,seed=5", fmt::format("{} {} --transport nccl", what, two)),
              expected);
    EXPECT_EQ(trained("devices=2,seed=6",
                      fmt::format("{} {} --transport nccl --cuda-graph yes", what, two), &said),
              expected);
    EXPECT_GT(count_before(said, "launched again"), 10) << said;
  }
}

/// The error of the last stage goes to stages that are no neighbours of it.
TEST(StandIn, SendsTheErrorOfTheLastStageToAllOthersWithTheSameBits) {
  const std::string what = fmt::format("--schedule dfa --stages 4 --steps 20 {}", lenet);
  const std::string expected = trained("seed=1", fmt::format("{} {}", what, on_one));
  for (const char* flags : {"", "--transport nccl", "--transport nccl --cuda-graph yes"}) {
    EXPECT_EQ(trained("devices=4,seed=2", fmt::format("{} {} {}", what, apart(4), flags)), expected)
        << flags;
  }
}

TEST(StandIn, ReplicasTrainAsOnTheCpu) {
  struct Case {
    const char* what;
    int ranks;
  };
  for (const auto& [schedule, ranks] :
       {Case{"--schedule ssgd:inside=1f1b --replicas 2 --stages 2 --microbatches 2", 4},
        Case{"--schedule ssgd --replicas 4 --stages 1", 4},
        Case{"--schedule local-sgd:steps=3 --replicas 2 --stages 1", 2},
        Case{"--schedule dfa --replicas 2 --stages 2", 4},
        Case{"--schedule asgd:inside=1f1b --replicas 2 --stages 2 --microbatches 2", 4},
        Case{"--schedule asgd:compensation=constant,lambda=20 --replicas 4 --stages 1", 4},
        Case{"--schedule asgd:compensation=adaptive,lambda=20 --replicas 2 --stages 2", 4},
        Case{"--schedule ssp:bound=1 --replicas 4 --stages 1", 4},
        Case{"--schedule ssd-sgd:delay=3,warmup=2 --replicas 2 --stages 2", 4},
        Case{"--schedule ssd-sgd:glu=b,delay=2,warmup=1,local_decay=0.1 --replicas 2 --stages 1",
             2}}) {
    SCOPED_TRACE(schedule);
    const std::string what = fmt::format("{} --steps 12 {}", schedule, lenet);
    const std::string expected = trained("", what);
    for (const char* graphs : {"no", "yes"}) {
      const auto close = [&](const char* settings, const std::string& flags) {
        EXPECT_LT(
            difference(trained(settings, fmt::format("{} {} --cuda-graph {}", what, flags, graphs)),
                       expected),
            tolerance)
            << flags << ", graphs: " << graphs;
      };
      close("seed=1", on_one);
      close("devices=4,seed=2", apart(ranks));
      close("devices=4,seed=3", apart(ranks) + " --transport nccl");
    }
  }
}

/// Sums differ in their last bits, so that an entry may be sent an update earlier or later.
TEST(StandIn, ReplicasSendTheLargestEntriesOfTheirGradients) {
  const std::string what =
      "--schedule ssgd:compression=topk,ratio=0.05,clip=0.5,warmup=1,step=3 --replicas 2 --stages "
      "2 --steps 12 --model lenet --data digits --batch-size 16 --lr 0.05 --partition uniform";
  const std::string expected = trained("", what);
  const std::string found = trained("seed=1", fmt::format("{} {}", what, on_one));
  EXPECT_LT(difference(found, expected), 1e-3);
  for (const char* flags : {"", "--transport nccl --cuda-graph yes"}) {
    EXPECT_EQ(trained("devices=4,seed=2", fmt::format("{} {} {}", what, apart(4), flags)), found);
  }
}

/// The scale changes no bit, as it is a power of two, but where it makes numbers infinite.
TEST(StandIn, ReplicasTrainTheSameHoweverTheLossIsScaled) {
  for (const char* schedule :
       {"asgd:compensation=adaptive,lambda=20", "asgd", "ssd-sgd:delay=2,warmup=2",
        "ssgd:compression=topk,ratio=0.05,clip=0.5"}) {
    SCOPED_TRACE(schedule);
    const std::string what = fmt::format(
        "--schedule {} --replicas 2 --stages 2 --steps 8 --model lenet --data digits --batch-size "
        "16 --lr 0.05 --partition uniform {} --precision fp16 --loss-scale",
        schedule, on_one);
    std::string said;
    const std::string expected = trained("seed=1", what + " 1024");
    EXPECT_LT(difference(trained("seed=1", what + " 4096", &said), expected), 1e-2);
    EXPECT_THAT(said, testing::Not(HasSubstr("left out")));
    const std::string overflowed = trained("seed=1", what + " 16777216", &said);
    EXPECT_THAT(said, HasSubstr("left out"));
    EXPECT_TRUE(std::isfinite(difference(overflowed, expected)));
  }
}

TEST(StandIn, ReplicasOfAStageWithoutParametersHaveNothingToSum) {
  for (const char* schedule : {"fr", "asgd:compensation=adaptive,lambda=1", "ssd-sgd:warmup=2",
                               "ssgd:compression=topk,ratio=0.5"}) {
    const std::string what = fmt::format(
        "--schedule {} --replicas 2 --stages 3 --partition 1/1/3 --steps 6 --model mlp --data "
        "digits --batch-size 16 --lr 0.05",
        schedule);
    const std::string expected = trained("", what);
    for (const std::string& flags : {on_one, apart(6), apart(6) + " --transport nccl"}) {
      SCOPED_TRACE(fmt::format("{} {}", schedule, flags));
      EXPECT_LT(difference(trained("devices=6", fmt::format("{} {}", what, flags)), expected),
                tolerance);
    }
  }
}

/// Convolutions and linear layers, which two libraries compute, and linear layers alone.
TEST(StandIn, TrainsInShortFormats) {
  const std::string linear =
      "--model mlp:hidden=32 --data digits --batch-size 16 --lr 0.05 --partition uniform";
  struct Case {
    const char* precision;
    double most;
  };
  for (const std::string& model : {lenet, linear}) {
    const std::string what =
        fmt::format("--schedule 1f1b --stages 2 --microbatches 2 --steps 10 {} {}", model, on_one);
    const std::string exact = trained("seed=1", what);
    for (const auto& [precision, most] :
         {Case{"tf32", 1e-2}, Case{"fp16", 1e-2}, Case{"bf16", 5e-2}}) {
      SCOPED_TRACE(fmt::format("{} {}", model, precision));
      const std::string flags = fmt::format("{} --precision {}", what, precision);
      const std::string found = trained("seed=2", flags);
      EXPECT_LT(difference(found, exact), most);
      EXPECT_GT(difference(found, exact), most / 1000) << "nothing was rounded";
      EXPECT_EQ(trained("seed=3", fmt::format("{} --cuda-graph yes", flags)), found);
    }
  }
}

TEST(StandIn, LeavesOutUpdatesThatAreNotFinite) {
  std::string said;
  trained("seed=1",
          fmt::format("--schedule 1f1b --stages 2 --microbatches 2 --steps 10 {} {} --precision "
                      "fp16 --loss-scale 16777216",
                      lenet, on_one),
          &said);
  EXPECT_THAT(said, HasSubstr("left out, the scaled gradient was not finite"));
}

/// So short that memory goes from one rank's readers to another task while they may still read it.
TEST(StandIn, KeepsItsBitsDownToTheLeastMemory) {
  struct Case {
    const char* schedule;
    int cublas_mib;  ///< of rank 0, which computes on so many lanes
    int kib;         ///< somewhat more than it needs beside that
  };
  for (const auto& [schedule, cublas_mib, plenty] :
       {Case{"dsp", 64, 372}, Case{"gpipe", 32, 300}}) {
    SCOPED_TRACE(schedule);
    const std::string what = fmt::format(
        "train --schedule {} --stages 2 --microbatches 8 --steps 6 {} --partition 9/2 {} --save w",
        schedule, network, on_one);
    const auto limited = [&, cublas_kib = cublas_mib * 1024](const Folder& folder, int kib) {
      return run(folder, "seed=2", fmt::format("{} --memory-limit {}KiB", what, cublas_kib + kib));
    };
    const Folder folder;
    ASSERT_EQ(limited(folder, 10 * plenty).code, 0);
    const std::string expected = folder.read("w");
    int kib = plenty;
    for (Outcome outcome; kib > 0; kib -= 2) {
      outcome = limited(folder, kib);
      if (outcome.code != 0) {
        EXPECT_THAT(outcome.err, HasSubstr("out of device memory"));
        break;
      }
      EXPECT_EQ(folder.read("w"), expected) << kib << " KiB";
    }
    EXPECT_LT(kib, plenty - 6) << "hardly a run had too little";
    EXPECT_GT(kib, plenty / 2);
  }
}

TEST(StandIn, ProfilesForTheSimulator) {
  const Folder folder;
  const Outcome outcome = run(folder, "devices=2",
                              "profile --device cuda:1 --model lenet --data digits --batch-size 16 "
                              "--samples 3 --save p.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json profile = json::parse(folder.read("p.json"));
  EXPECT_EQ(profile["device"], "stand-in (no device)");
  const json result =
      folder.json("simulate --schedule bp --stages 1 --profile p.json --batch-size 16");
  EXPECT_GT(result["makespan_ms"], 0.0);
}

/// In the CSV of --tasks: how long the tasks of a kind on stage 0 took, in the order of their
/// start.
std::vector<double> durations_ms(const std::string& csv, const std::string& kind) {
  std::vector<double> all;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells;
    std::istringstream parts(line);
    for (std::string cell; std::getline(parts, cell, ',');) cells.push_back(cell);
    if (cells.size() < 9 || cells[1] != kind || cells[2] != "0") continue;
    all.push_back(std::stod(cells[8]) - std::stod(cells[7]));
  }
  return all;
}

/// CUDA's times are floats that count from a base, which has to move on in a long run; with graphs
/// it does so a piece at a time, half a minute here.
TEST(StandIn, MeasuresTheEndOfALongRunAsExactlyAsItsBeginning) {
  constexpr double resolution_ms = 4e-3, work_us = 1234567.8;
  for (const char* graphs : {"no", "yes"}) {
    SCOPED_TRACE(graphs);
    const Folder folder;
    const Outcome outcome =
        run(folder, fmt::format("devices=2,work_us={}", work_us),
            fmt::format("train --schedule 1f1b --stages 2 --microbatches 2 --steps 30 {} {} "
                        "--cuda-graph {} --tasks t.csv",
                        lenet, apart(2), graphs));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::vector<double> times = durations_ms(folder.read("t.csv"), "U");
    ASSERT_EQ(times.size(), 30U);
    for (const double ms : times) EXPECT_NEAR(ms, work_us / 1e3, resolution_ms);
  }
}

// ---- what goes wrong
// -----------------------------------------------------------------------------

struct Fault {
  const char* settings;
  std::string flags;
  std::vector<std::string> message;
  int code = 1;
};

TEST(StandIn, SaysOnceWhatFailedOnWhichRankInWhichTask) {
  const std::string two = apart(2);
  const std::string nccl = two + " --transport nccl";
  const std::vector<Fault> faults = {
      {"fail_malloc=1",
       on_one,
       {"rank 0, cuBLAS's workspace: out of device memory: 33554432 bytes are needed for rank 0"}},
      {"memory=67300000",
       on_one,
       {"rank 1, weights, gradients and optimizer state of stage 1: out of device memory: ",
        "bytes are needed for rank 1; on device 0 rank 0 holds 3", ", rank 1 holds 3",
        " of 67300000 are free"}},
      {"memory=67400000",
       on_one,
       {"rank 0, task 0F1: out of device memory: ", "for rank 0; on device 0 rank 0 holds ",
        " of 67400000 are free"}},
      {"",
       on_one + " --memory-limit 100KiB",
       {"rank 0, cuBLAS's workspace: ", "beside the 0 in use on rank 0, of 102400 allowed"}},
      {"",
       on_one + " --memory-limit 32868KiB",
       {"in use on rank 1 and 33554432 reserved, of 33656832 allowed"}},
      {"fail_kernel=100", on_one, {"rank ", ", task ", "cudaEventQuery: an illegal memory access"}},
      {"fail_kernel=900", on_one + " --cuda-graph yes", {"rank ", ", task ", "illegal memory"}},
      {"fail_kernel=600,devices=2", nccl, {"rank ", ", task ", "illegal memory"}},
      {"fail_nccl=10,devices=2", nccl, {"rank ", ", task ", "NCCL on device ", "remote process"}},
      {"fail_nccl=1,devices=2",
       nccl + " --cuda-graph yes",
       {", task 0F0: in the tasks of a CUDA graph from there on: NCCL on device "}},
      {"fail_nccl=60,devices=2", nccl + " --cuda-graph yes", {", task ", "NCCL on device "}},
      {"damage_peers=1,devices=2", two, {"a copy from device 0 to device 1 arrived damaged"}},
      {"", on_one + " --deterministic no", {", task ", "cudnnConvolutionForward"}},  // runs none
      {"cudnn=91000", on_one, {"cuDNN 9.", "(loaded 9.10.0)"}, 2},
      {"devices=0", on_one, {"no CUDA device: no CUDA-capable device is detected"}, 2},
      {"devices=2", "--device cuda:0,2", {"there is no device 2; CUDA counts 2 devices"}, 2},
  };
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fmt::format("{} {}", fault.settings, fault.flags));
    const Folder folder;
    const Outcome outcome = run(
        folder, fault.settings,
        fmt::format("train --schedule 1f1b --stages 2 --microbatches 2 --steps 40 {} {} --save w",
                    lenet, fault.flags));
    EXPECT_EQ(outcome.code, fault.code) << outcome.err;
    const std::size_t at = outcome.err.find("error: ");
    ASSERT_NE(at, std::string::npos) << outcome.err;
    const std::string error = outcome.err.substr(at);
    for (const std::string& part : fault.message) EXPECT_THAT(error, HasSubstr(part));
    EXPECT_EQ(error.find('\n'), error.size() - 1) << "one line: " << error;
    EXPECT_EQ(error.rfind(", task "), error.find(", task ")) << "one task: " << error;
    EXPECT_EQ(folder.files(), 0);
  }
}

}  // namespace
}  // namespace unlatch::test
