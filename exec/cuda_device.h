// Device: the streams, marks, library handles and memory of the GPUs of one run.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "exec/cuda_check.h"
#include "exec/cuda_kernels.h"
#include "exec/stream_memory.h"

namespace unlatch::exec::cuda {

struct DeviceOptions {
  std::vector<int> numbers = {0};  ///< one a rank, or one for all; as CUDA counts them
  std::size_t memory_limit = 0;    ///< bytes a rank; 0: what the device has
  std::size_t most_workspace = std::size_t{256} << 20;  ///< of one convolution
  bool tf32 = false;  ///< products of float32 in the shorter format
  int window = StreamOrder::usual_window;
};

/// All lanes of a graph as streams of the GPU of their rank. For one host thread. Every call but
/// those of Streams and DeviceMemory is about the lane of the task at hand.
class Device : public Streams, public DeviceMemory {
 public:
  /// Throws RunError when the device cannot be used.
  Device(const TaskGraph& graph, const DeviceOptions& options);
  ~Device() override;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  void record(int mark, LaneId lane) override;
  void wait(LaneId lane, int mark) override;
  nanoseconds reached(int mark) override;
  std::byte* allocate(Rank rank, std::size_t bytes) override;
  void release(Rank rank, std::byte* memory) noexcept override;
  int device_of(Rank rank) const override;

  const DeviceOptions& options() const { return options_; }
  StreamOrder& order() { return order_; }
  StreamMemory::Use memory_of(Rank rank) const { return memory_.use_of(rank); }

  StreamHandle stream() { return lanes_[order_.lane().value].stream; }
  cudnnHandle_t dnn() { return lanes_[order_.lane().value].dnn; }
  cublasHandle_t blas() { return lanes_[order_.lane().value].blas; }
  /// For what is asked before the run; never to launch anything.
  cudnnHandle_t any_dnn() const { return any_dnn_; }

  /// Memory of the rank of the task at hand.
  Tensor take(std::size_t bytes);
  /// A copy in that memory, from whichever device.
  Tensor copy_of(const Tensor& tensor);
  /// The tensor where the task at hand can read it: itself, or a copy from another device.
  Tensor brought(Tensor tensor);
  /// The only ways to a tensor's memory while a run goes on: they tell the pool who uses it.
  template <class T = float>
  const T* read(const Tensor& tensor) {
    memory_.use(tensor);
    return tensor.data<T>();
  }
  template <class T = float>
  T* write(const Tensor& tensor) {
    memory_.use(tensor);
    return tensor.data<T>();
  }

  /// Whatever happened: nothing is on its way any more.
  void wait_until_idle() noexcept;
  /// Before the run, or after: copies that wait.
  Tensor upload(Rank rank, std::span<const float> values);
  std::vector<float> download(const Tensor& tensor) const;

 private:
  /// A moment on one device that times are counted from.
  struct Base {
    cudaEvent_t event = nullptr;
    nanoseconds time{0};
  };
  struct Lane {
    int device = 0;
    StreamHandle stream = nullptr;
    cudnnHandle_t dnn = nullptr;  ///< of lanes that compute; bound to the stream
    cublasHandle_t blas = nullptr;
  };
  Rank rank_at_hand() const;
  void make_lanes();
  void enable_peers() const;
  /// Makes it the device of the calls that follow.
  void select(int device);
  void start_clocks();
  void name_range(bool starts);
  /// The mark's event on the device where it was set last.
  cudaEvent_t& event(int mark);

  const TaskGraph& graph_;
  DeviceOptions options_;
  std::vector<Lane> lanes_;
  cudnnHandle_t any_dnn_ = nullptr;
  int selected_ = -1;
  std::map<int, std::vector<cudaEvent_t>> events_;  ///< by device and mark; null until it is used
  std::vector<int> device_of_mark_;
  std::map<int, Base> bases_;  ///< by device; empty before the run
  StreamOrder order_;
  StreamMemory memory_;
};

}  // namespace unlatch::exec::cuda
