// CudaFeed: the data of a run, brought to the device ahead of its use.
#pragma once

#include <deque>

#include "exec/cuda_device.h"
#include "exec/stage_module.h"

namespace unlatch::exec::cuda {

/// Copies what the host's feed gives through page-locked memory, on the lane of the task at hand.
/// The host waits only when it is `most_staged` tensors ahead of the device.
class CudaFeed : public Feed {
 public:
  CudaFeed(Device& device, Feed& host) : device_(device), host_(host) {}
  ~CudaFeed() override;

  Tensor input(MicroBatch i) override { return copied(host_.input(i)); }
  Tensor target(MicroBatch i) override { return copied(host_.target(i)); }

 private:
  static constexpr std::size_t most_staged = 64;
  struct Staged {
    TaskId task;
    void* memory;
    std::size_t bytes;
  };
  Tensor copied(const Tensor& values);
  /// Memory that no copy reads any more.
  Staged staging(std::size_t bytes);

  Device& device_;
  Feed& host_;
  std::deque<Staged> staged_;  ///< in the order of their tasks
};

}  // namespace unlatch::exec::cuda
