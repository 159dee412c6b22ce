// What UNLATCH_STANDIN asks of the stand-ins, as in "devices=2,seed=3,fail_kernel=40".
#pragma once

#include <cstddef>

namespace unlatch::standin {

/// Faults count from 1; 0 is never.
struct Settings {
  int devices = 1;
  std::size_t memory = std::size_t{4} << 30;  ///< bytes a device
  unsigned seed = 1;                          ///< of the order in which streams go on
  double work_us = 10;                        ///< time of a kernel or a copy
  int fail_malloc = 0;                        ///< the n-th cudaMalloc finds no memory
  int fail_kernel = 0;                        ///< the n-th kernel that runs fails on its way
  int stuck_record = 0;                       ///< the n-th record of an event is never reached
  int fail_nccl = 0;                          ///< the n-th exchange fails and never ends
  bool peers = true;                          ///< there is a way between any two devices
  bool damage_peers = false;                  ///< cudaMemcpyPeer changes what it copies
  std::size_t cudnn = 0;                      ///< the version that cuDNN gives; 0: as compiled
  int cublas = 0;                             ///< that of cuBLAS, as 130100; 0: as compiled
  int nccl = 0;                               ///< that of NCCL, as 22809; 0: as compiled
  int runtime = 0;                            ///< that of the runtime, as 13000; 0: as compiled
  int driver = 0;                             ///< that of the driver; 0: as compiled, -1: none
  int old_device = -1;                        ///< too old for any code, of capability 5.2
};

/// Read once. A key that is none ends the process.
const Settings& settings();

}  // namespace unlatch::standin
