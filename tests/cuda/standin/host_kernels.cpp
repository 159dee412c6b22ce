// The own kernels for the host, from the source that nvcc compiles for the device.
#include "exec/cuda_head_kernels.cu"       // NOLINT(bugprone-suspicious-include)
#include "exec/cuda_kernels.cu"            // NOLINT(bugprone-suspicious-include)
#include "exec/cuda_parameter_kernels.cu"  // NOLINT(bugprone-suspicious-include)

namespace unlatch::standin {

std::vector<HostKernel>& host_kernels() {
  static std::vector<HostKernel> kernels;
  return kernels;
}

}  // namespace unlatch::standin
