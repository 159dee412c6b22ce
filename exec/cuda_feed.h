// CudaFeed: the data of a run, brought to the device ahead of its use.
#pragma once

#include <vector>

#include "exec/cuda_device.h"
#include "exec/stage_module.h"

namespace unlatch::exec::cuda {

/// Copies what the host's feed gives through page-locked memory, on the lane of the task at hand,
/// and brings inputs to the precision of the run. The host waits only when it is `places` tensors
/// ahead of the device.
class CudaFeed : public Feed {
 public:
  CudaFeed(Device& device, Feed& host, std::size_t places)
      : device_(device), host_(host), staged_(places) {}
  ~CudaFeed() override;

  Tensor input(MicroBatch i) override;
  Tensor target(MicroBatch i) override { return copied(host_.target(i)); }

 private:
  /// Page-locked memory and the task that copies from it.
  struct Staged {
    void* memory = nullptr;
    std::size_t bytes = 0;
    TaskId task{-1};
  };
  Tensor copied(const Tensor& values);

  Device& device_;
  Feed& host_;
  std::vector<Staged> staged_;  ///< used in turn
  std::size_t next_ = 0;
};

}  // namespace unlatch::exec::cuda
