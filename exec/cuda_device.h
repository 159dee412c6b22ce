// Device: the lanes, library handles and memory of the GPUs of one run.
#pragma once

#include <memory>
#include <vector>

#include "exec/cuda_nccl.h"
#include "exec/cuda_streams.h"
#include "exec/device_library.h"
#include "exec/stream_memory.h"

namespace unlatch::exec::cuda {

/// All lanes of a graph as streams of the GPU of their rank. For one host thread. Every call is
/// about the lane of the task at hand, where nothing else is said.
class Device : private DeviceMemory {
 public:
  /// Throws RunError when the device cannot be used.
  Device(const TaskGraph& graph, const DeviceSettings& settings);
  ~Device() override;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceSettings& settings() const { return settings_; }
  StreamOrder& order() { return order_; }
  /// Null without graphs.
  const StreamReplay* replay() const { return replay_.get(); }
  StreamMemory::Use memory_of(Rank rank) const { return memory_.use_of(rank); }

  /// The only ways to put work on the lane: a call of a CUDA library, which is checked, and the
  /// launch of an own kernel, which gets the stream before its arguments. A piece that comes again
  /// is known by the arguments, so that nothing else may tell one call from another.
  template <class F, class... A>
  void call(const char* name, F* function, A... arguments) {
    put([=] { check(function(arguments...), name); }, function, arguments...);
  }
  template <class F, class... A>
  void launch(F* kernel, A... arguments) {
    put(
        [=, on = stream()] {
          kernel(on, arguments...);
          check(cudaGetLastError(), "kernel launch");  // a launch tells its failure only there
        },
        kernel, stream(), arguments...);
  }

  StreamHandle stream() const { return streams_.stream(order_.lane()); }
  cudnnHandle_t dnn() const { return handles_[order_.lane().value].dnn.get(); }
  cublasHandle_t blas() const { return handles_[order_.lane().value].blas.get(); }
  /// For what is asked before the run; never to launch anything.
  cudnnHandle_t any_dnn() const { return any_dnn_; }

  /// Memory of the rank of the task at hand.
  Tensor take(std::size_t bytes);
  /// A copy in that memory, from whichever device.
  Tensor copy_of(const Tensor& tensor);
  void copy_into(const Tensor& to, const Tensor& from);
  /// `factor` times the sum of float32 tensors, each on a device of its own, in all of them. False
  /// when there is no way to do that at once.
  bool sum_at_once(std::span<Tensor* const> tensors, double factor);
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

  /// Waits for all that was put on any lane.
  void finish();
  /// Whatever happened: nothing is on its way any more.
  void wait_until_idle() noexcept { streams_.wait_until_idle(); }
  /// Before the run, or after: copies that wait.
  Tensor upload(Rank rank, std::span<const float> values);
  std::vector<float> download(const Tensor& tensor) const;

 private:
  struct Destroy {
    void operator()(cudnnHandle_t dnn) const noexcept;
    void operator()(cublasHandle_t blas) const noexcept;
  };
  /// Of a lane that computes; bound to its stream.
  struct Handles {
    Tensor blas_workspace;
    std::unique_ptr<cudnnContext, Destroy> dnn;
    std::unique_ptr<cublasContext, Destroy> blas;
  };

  template <class F, class... A>
  void put(F work, A... what) {
    if (!replay_) return work();
    put_words(StreamReplay::words_of(what...), work);
  }
  template <class F>
  void put_words(const std::vector<StreamReplay::Word>& words, F work) {
    if (!replay_) return work();
    const int device = streams_.device(order_.lane());
    replay_->add(words, [this, device, work] {
      streams_.select(device);
      work();
    });
  }

  Rank rank_at_hand() const;
  std::vector<int> device_of_each_lane() const;
  NcclRoutes routes() const;
  void watch(bool too_late) const;
  Handles handles_on(StreamHandle stream, Tensor workspace) const;

  std::byte* allocate(Rank rank, std::size_t bytes) override;
  void release(Rank rank, std::byte* memory) noexcept override;
  int device_of(Rank rank) const override;
  std::optional<Room> room(Rank rank) override;

  const TaskGraph& graph_;
  DeviceSettings settings_;
  int piece_tasks_;  ///< tasks of one CUDA graph
  int window_;
  std::unique_ptr<NcclTransport> nccl_;  ///< null: copies
  CudaStreams streams_;
  std::unique_ptr<StreamReplay> replay_;
  StreamOrder order_;
  StreamMemory memory_;
  std::vector<Handles> handles_;  ///< by lane
  cudnnHandle_t any_dnn_ = nullptr;
};

}  // namespace unlatch::exec::cuda
