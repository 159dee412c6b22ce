// O39: a producer with two buffers and a slow consumer, on a real device, or on the stand-in of
// one, whose orders find the waits that are missing; skipped where there is neither.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <string_view>

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

/// Leaves out one of the waits.
class ForgetfulStreams : public CudaStreams {
 public:
  ForgetfulStreams(const TaskGraph& graph, int window, int forgotten)
      : CudaStreams(graph, std::vector<int>(graph.lanes().size(), 0), {.window = window}),
        forgotten_(forgotten) {}
  void wait(LaneId lane, int mark) override {
    if (++waits_ != forgotten_) CudaStreams::wait(lane, mark);
  }

  int waits() const { return waits_; }

 private:
  int forgotten_;  ///< its number, from 1; 0: none
  int waits_ = 0;
};

/// Page-locked.
class HostBuffer {
 public:
  HostBuffer() { check(cudaMallocHost(&memory_, micro_batches * bytes), "cudaMallocHost"); }
  ~HostBuffer() { cudaFreeHost(memory_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
};

/// The first is shorter than the graph, so that marks are used again too, and longer than what lies
/// between a consumer and the next producer of its buffer.
constexpr std::array windows = {16, StreamOrder::usual_window};

class StreamReuse : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "no CUDA device";
    }
  }

  /// The first micro-batch of which the consumer saw something else; none where all is well.
  std::optional<std::size_t> first_wrong(int window, int forgotten = 0) {
    const HostBuffer host;
    std::memset(host.data(), 0xFF, micro_batches * bytes);
    ForgetfulStreams streams(graph_, window, forgotten);
    StreamOrder order(graph_, streams, window);
    TwoBuffers source;
    StreamMemory memory(graph_, order, source);
    Relay relay(streams, memory, host.data());
    StreamBackend backend(graph_, order, relay);
    run(graph_, backend);
    waits_ = streams.waits();
    for (std::size_t m = 0; m < micro_batches; ++m) {
      const auto is_m = [m](std::byte b) { return b == static_cast<std::byte>(m); };
      const std::span<const std::byte> seen(host.data() + m * bytes, bytes);
      if (!std::ranges::all_of(seen, is_m)) return m;
    }
    return std::nullopt;
  }

  /// Only F does anything. The producer waits for nothing of the consumer's but buffers, and comes
  /// in turn with it.
  TaskGraph graph_ =
      ScheduleSpec::parse("dgl").make({.stages = 2, .batches = micro_batches}).build();
  int waits_ = 0;
};

TEST_F(StreamReuse, TheConsumerSeesEachMicroBatchInFull) {
  for (const int window : windows) {
    for (int time = 0; time < 50; ++time) {
      const auto wrong = first_wrong(window);
      ASSERT_FALSE(wrong.has_value())
          << "micro-batch " << *wrong << ", time " << time << ", window " << window;
    }
  }
}

/// Every micro-batch is waited for, and all but the first two wait for a buffer. A real device may
/// be lucky without; the stand-in hardly is in twenty orders.
TEST_F(StreamReuse, OnTheStandInEveryWaitIsMissed) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  if (!std::string_view(properties.name).starts_with("stand-in")) {
    GTEST_SKIP() << "a real device may be lucky";
  }
  for (const int window : windows) {
    first_wrong(window);
    const int waits = waits_;
    EXPECT_EQ(waits, 2 * micro_batches - 2);
    for (int forgotten = 1; forgotten <= waits; ++forgotten) {
      bool is_missed = false;
      for (int time = 0; time < 20 && !is_missed; ++time) {
        is_missed = first_wrong(window, forgotten).has_value();
      }
      EXPECT_TRUE(is_missed) << "wait " << forgotten << ", window " << window;
    }
  }
}

}  // namespace
}  // namespace unlatch::exec::cuda
