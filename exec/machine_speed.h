// machine_speed: what the cores of this machine do, for a hardware file of it.
#pragma once

#include <chrono>

namespace unlatch::exec {

/// Of one core while all of them work, except `copy_rate` and `hop`, which two cores have to
/// themselves.
struct MachineSpeed {
  int cores = 1;
  double flops = 0;        ///< a second, of oneDNN's float32 product of 512 x 512 matrices
  double memory_rate = 0;  ///< bytes a second, of a[i] = b[i] + s c[i] beyond the caches
  std::chrono::nanoseconds launch{0};  ///< of a call of oneDNN with next to nothing to do
  double copy_rate = 0;  ///< bytes a second, of 1 MiB that another thread has just written
  std::chrono::nanoseconds hop{0};  ///< until a thread that waits sees what another stored
};

/// Takes a second or two. The best of many, as STREAM does (McCalpin 1995): what others do on the
/// machine meanwhile does not count as long as they leave gaps.
MachineSpeed measure_machine();

}  // namespace unlatch::exec
