// NcclTransport: what goes between GPUs by NCCL, one communicator for each way a tensor goes.
#pragma once

#include <nccl.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "exec/cuda_check.h"
#include "exec/cuda_kernels.h"

namespace unlatch::exec::cuda {

/// Everything that a run sends.
struct NcclRoutes {
  std::set<std::pair<int, int>> pairs;  ///< from device to device
  std::set<std::vector<int>> groups;    ///< devices that sum up together; each once
};

/// Sends and receives are put in one group each, and both only once the receiver has come to where
/// it needs the tensor: no kernel waits on a device for its other half, so that no order of the
/// schedule can lock two devices against each other. For one host thread, which puts everything on
/// all devices. May be captured.
class NcclTransport {
 public:
  /// Makes the communicators. Throws RunError.
  explicit NcclTransport(const NcclRoutes& routes);
  ~NcclTransport();
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  bool goes(int from, int to) const { return pairs_.contains({from, to}); }
  bool sums(const std::vector<int>& devices) const { return groups_.contains(devices); }

  struct Place {
    void* memory = nullptr;
    int device = 0;
  };
  /// On the receiver's stream, as far as that can tell.
  void copy(Place to, Place from, std::size_t bytes, StreamHandle receiver);
  /// `factor` times the sum of the arrays, in all of them; `lane` is a stream of the first one's
  /// device. The order of the sum is NCCL's.
  void all_reduce(const std::vector<Place>& arrays, std::size_t n, float factor, StreamHandle lane);

  /// When a communicator failed on its way, ends them all and throws RunError.
  void check();
  /// Ends what waits for its other half for ever.
  void abort() noexcept;

 private:
  /// A device's share in a communicator. Work on its own stream starts at `ready` on the lane that
  /// wants it, and the lane goes on behind `done`.
  struct Member {
    int device = 0;
    ncclComm_t communicator = nullptr;
    StreamHandle stream = nullptr;
    cudaEvent_t done = nullptr;
  };
  struct Members {
    std::vector<Member> all;
    cudaEvent_t ready = nullptr;                     ///< of the device whose lane wants it
    std::map<float, std::vector<ncclRedOp_t>> sums;  ///< by factor, one a member
  };
  static Members connected(const std::vector<int>& devices, int receiver);
  static void begin(const Members& members, StreamHandle lane, int lane_device);
  static void end(const Members& members, StreamHandle lane, int lane_device);
  template <class F>
  void each_communicator(F f) const;

  std::map<std::pair<int, int>, Members> pairs_;
  std::map<std::vector<int>, Members> groups_;
};

}  // namespace unlatch::exec::cuda
