// CudaFeed: the data of a run, brought to the device ahead of its use.
#pragma once

#include <vector>

#include "exec/cuda_device.h"
#include "exec/stage_module.h"

namespace unlatch::exec::cuda {

/// Copies what the host's feed gives through page-locked memory, on the lane of the task at hand,
/// and brings inputs to the precision of the run. The host waits only where it is ahead of the
/// device by all places of that memory: as many inputs, and as many targets, as two steps copy and
/// at least 32, but of at most 512 MiB each. With CUDA graphs as many as two of their pieces copy,
/// whatever that takes, so that a piece finds its data at the addresses of the one before the last.
class CudaFeed : public Feed {
 public:
  CudaFeed(Device& device, Feed& host, const TaskGraph& graph);

  Tensor input(MicroBatch i) override;
  Tensor target(MicroBatch i) override { return copied(host_.target(i), targets_); }
  Share share(MicroBatch i) const override { return host_.share(i); }

 private:
  /// Page-locked places of one size, used in turn.
  class Places {
   public:
    /// As many as `wanted`; fewer where they would take more than `most` bytes, but two.
    Places(std::size_t wanted, std::size_t most) : wanted_(wanted), most_(most) {}
    ~Places();
    Places(const Places&) = delete;
    Places& operator=(const Places&) = delete;
    /// The next one, for the task at hand; waits for the one that copied from it. All of them are
    /// allocated at the first call, and again should more bytes be asked for.
    void* next(std::size_t bytes, StreamOrder& order);

   private:
    void allocate(std::size_t bytes, StreamOrder& order);

    std::size_t wanted_, most_;
    void* memory_ = nullptr;
    std::size_t bytes_ = 0;      ///< of a place
    std::vector<TaskId> users_;  ///< by place; -1: none yet
    std::size_t next_ = 0;
  };

  Tensor copied(const Tensor& values, Places& places);

  Device& device_;
  Feed& host_;
  Places inputs_, targets_;
};

}  // namespace unlatch::exec::cuda
