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

}  // namespace
}  // namespace unlatch::test
