// O39 on a real device: a producer with two buffers and a slow consumer; skipped where there is
// none.
#include <gtest/gtest.h>

#include <cstring>

#include "exec/cuda_streams.h"
#include "exec/executor.h"
#include "exec/stream_backend.h"
#include "exec/stream_memory.h"
#include "schedules/error.h"
#include "schedules/registry.h"
#include "tests/bench/cuda_busy.h"

namespace unlatch::exec::cuda {
namespace {

constexpr int micro_batches = 16;
constexpr std::size_t bytes = 1 << 20;

class TwoBuffers : public DeviceMemory {
 public:
  std::byte* allocate(Rank, std::size_t size) override {
    if (given_ == 2) return nullptr;
    ++given_;
    void* memory = nullptr;
    check(cudaMalloc(&memory, size), "cudaMalloc");
    return static_cast<std::byte*>(memory);
  }
  void release(Rank, std::byte* memory) noexcept override {
    --given_;
    cudaFree(memory);
  }

 private:
  int given_ = 0;
};

/// Stage 0 fills a buffer with the number of its micro-batch; stage 1 takes its time and then
/// brings it to the host.
class Relay : public TaskRunner {
 public:
  Relay(const CudaStreams& streams, StreamMemory& memory, std::byte* host)
      : streams_(streams), memory_(memory), host_(host), buffers_(micro_batches) {}

  void run(const Task& task, Workspace&) override {
    if (task.op != unlatch::Op::forward) return;
    constexpr long long five_ms = 8'000'000, tenth_of_a_ms = 160'000;  // clocks, about
    const StreamHandle stream = streams_.stream(task.lane_id());
    const auto m = static_cast<std::size_t>(task.micro_batch.value);
    if (task.stage == Stage{0}) {
      buffers_[m] = memory_.take(Rank{0}, bytes);
      bench::launch_busy(stream, tenth_of_a_ms);
      check(cudaMemsetAsync(buffers_[m].data<void>(), static_cast<int>(m), bytes, stream),
            "cudaMemsetAsync");
    } else {
      const Tensor buffer = std::exchange(buffers_[m], {});
      memory_.use(buffer);
      bench::launch_busy(stream, five_ms);
      check(cudaMemcpyAsync(host_ + m * bytes, buffer.data<void>(), bytes, cudaMemcpyDeviceToHost,
                            stream),
            "cudaMemcpyAsync");
    }
  }

 private:
  const CudaStreams& streams_;
  StreamMemory& memory_;
  std::byte* host_;
  std::vector<Tensor> buffers_;
};

TEST(StreamReuse, TheConsumerSeesEachMicroBatchInFull) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
  const TaskGraph graph =
      ScheduleSpec::parse("gpipe").make({.stages = 2, .micro_batches = micro_batches}).build();
  void* pinned = nullptr;
  check(cudaMallocHost(&pinned, micro_batches * bytes), "cudaMallocHost");
  auto* host = static_cast<std::byte*>(pinned);
  for (int time = 0; time < 50; ++time) {
    std::memset(host, 0xFF, micro_batches * bytes);
    CudaStreams streams(graph, std::vector<int>(graph.lanes().size(), 0), {});
    StreamOrder order(graph, streams);
    TwoBuffers source;
    StreamMemory memory(graph, order, source);
    Relay relay(streams, memory, host);
    StreamBackend backend(graph, order, relay);
    run(graph, backend);
    for (std::size_t m = 0; m < micro_batches; ++m) {
      const auto is_m = [m](std::byte b) { return b == static_cast<std::byte>(m); };
      const std::span<const std::byte> seen(host + m * bytes, bytes);
      ASSERT_TRUE(std::ranges::all_of(seen, is_m)) << "micro-batch " << m << ", time " << time;
    }
  }
  cudaFreeHost(pinned);
}

}  // namespace
}  // namespace unlatch::exec::cuda
