// launch_busy(): a kernel that takes time and does nothing else.
#pragma once

#include "exec/cuda_kernels.h"

namespace unlatch::bench {

/// One thread that spins for that many clocks of its multiprocessor; none for 0.
void launch_busy(exec::cuda::StreamHandle stream, long long clocks);

}  // namespace unlatch::bench
