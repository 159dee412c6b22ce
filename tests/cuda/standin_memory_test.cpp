// The memory of real stages of the CUDA library: what the account of a run says of it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cuda/standin_program.h"

namespace unlatch::test {
namespace {

using nlohmann::json;

constexpr std::size_t mib = std::size_t{1} << 20;

/// Of each rank.
json memory_of(const std::string& arguments) {
  const Folder folder;
  const Outcome outcome =
      run(folder, "devices=4", fmt::format("train --steps 6 {} --json", arguments));
  EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
  return json::parse(outcome.out, nullptr, false)["measured"]["memory_detail"];
}

/// Tapes of convolutions, pools, batch norms and residual blocks, weights, gradients, velocities.
TEST(StandInMemory, KeepsWhatItsTensorsMakeThePredictionSay) {
  const std::string resnet =
      "--model resnet20:width=4 --data digits --batch-size 8 --lr 0.05 "
      "--optimizer momentum:momentum=0.9 --partition uniform";
  for (const char* schedule : {"bp", "gpipe:recompute=always", "gpipe:recompute=except_last",
                               "1f1b", "zb-h1", "fdg", "dsp", "ddg", "fr", "pipedream", "dgl"}) {
    for (const auto& [model, stages] : {std::pair(lenet, 4), std::pair(resnet, 2)}) {
      const std::string what = fmt::format("--schedule {} --stages {} --microbatches 4 {} {}",
                                           schedule, stages, model, apart(stages));
      SCOPED_TRACE(what);
      const json ranks = memory_of(what);
      ASSERT_EQ(ranks.size(), static_cast<std::size_t>(stages));
      for (const json& rank : ranks) {
        EXPECT_GT(rank["kept_peak_bytes"], 0);
        EXPECT_EQ(rank["kept_peak_bytes"], rank["predicted_peak_of_tensors_bytes"])
            << "rank " << rank["rank"];
      }
    }
  }
}

/// R of rank 0 has a lane of its own, beside that of F and B; the last stage needs none.
TEST(StandInMemory, CountsTheWorkspacesOfCublas) {
  const json ranks =
      memory_of(fmt::format("--schedule dsp --stages 2 {} {} --memory-limit 65MiB", lenet, on_one));
  ASSERT_EQ(ranks.size(), 2U);
  for (const auto& [rank, lanes] : {std::pair(0, 2), std::pair(1, 1)}) {
    const json& pool = ranks[static_cast<std::size_t>(rank)]["pool"];
    const auto reserved = static_cast<std::size_t>(lanes) * 32 * mib;
    EXPECT_EQ(pool["reserved_bytes"], reserved);
    EXPECT_GE(pool["allocated_bytes"], reserved + pool["peak_bytes"].get<std::size_t>());
    EXPECT_LE(pool["allocated_bytes"], 65 * mib);
  }
}

/// How often the host did what costs it time, as tests/cuda/standin/counts.h names it.
json counts_of(const std::string& arguments) {
  const Folder folder;
  const Outcome outcome = folder.run(
      fmt::format("train {}", arguments),
      fmt::format("UNLATCH_STANDIN=devices=4 UNLATCH_STANDIN_COUNTS='{}'", folder.file("counts")));
  EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
  return json::parse(folder.read("counts"), nullptr, false);
}

/// What a rank runs ahead by it takes at once behind its first update. Where more is held until a
/// stale schedule has filled its pipeline, it goes on until then.
TEST(StandInMemory, AsksTheDeviceForNoMemoryBehindTheFirstStep) {
  struct Case {
    const char* schedule;
    int filled;  ///< steps after which nothing more is held
  };
  for (const auto& [schedule, filled] :
       {Case{"bp", 1}, Case{"gpipe", 1}, Case{"gpipe:recompute=always", 1}, Case{"1f1b", 1},
        Case{"zb-h1", 1}, Case{"fr", 8}, Case{"ddg", 8}, Case{"fdg", 16}, Case{"dsp", 8}}) {
    for (const std::string& where : {apart(4), on_one + " --cuda-graph yes"}) {
      if (where != apart(4) && std::string_view(schedule) != "1f1b") continue;
      const auto counts_after = [&, what = schedule](int steps) {
        return counts_of(fmt::format("--schedule {} --stages 4 --microbatches 4 --steps {} {} {}",
                                     what, steps, lenet, where));
      };
      SCOPED_TRACE(fmt::format("{} {}", schedule, where));
      const json first = counts_after(filled + 1), all = counts_after(50);
      EXPECT_GT(all["works"], first["works"]);
      EXPECT_EQ(all["mallocs"], first["mallocs"]);
      EXPECT_EQ(all["host_mallocs"], first["host_mallocs"]);
    }
  }
}

/// However many micro-batches they have.
TEST(StandInMemory, TheHostPutsTwoStepsOnTheStreamsWithoutAQuestion) {
  for (const char* schedule :
       {"gpipe --stages 2", "1f1b --stages 4", "ssgd --stages 1 --replicas 2", "bp --stages 1"}) {
    const json counts = counts_of(fmt::format(
        "--schedule {} --microbatches 100 --steps 2 --model lenet --data digits --batch-size 400 "
        "{}",
        schedule, on_one));
    EXPECT_GT(counts["works"], 0) << schedule;
    EXPECT_EQ(counts["works"], counts["works_before_a_question"]) << schedule;
  }
}

}  // namespace
}  // namespace unlatch::test
