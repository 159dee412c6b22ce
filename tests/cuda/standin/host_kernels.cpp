// The own kernels for the host, from the source that nvcc compiles for the device.
#include "exec/cuda_dropout_kernels.cu"    // NOLINT(bugprone-suspicious-include)
#include "exec/cuda_head_kernels.cu"       // NOLINT(bugprone-suspicious-include)
#include "exec/cuda_kernels.cu"            // NOLINT(bugprone-suspicious-include)
#include "exec/cuda_optimizer_kernels.cu"  // NOLINT(bugprone-suspicious-include)
#include "exec/cuda_parameter_kernels.cu"  // NOLINT(bugprone-suspicious-include)
#include "exec/cuda_sequence_kernels.cu"   // NOLINT(bugprone-suspicious-include)
#include "exec/cuda_softmax_kernels.cu"    // NOLINT(bugprone-suspicious-include)
#include "exec/cuda_square_sum.cu"        // NOLINT(bugprone-suspicious-include)

namespace unlatch::standin {
namespace {

/// That of tests/bench/cuda_busy.cu, which only takes its time; so does all work here.
void busy(long long) {}
[[maybe_unused]] const std::size_t& busy_is_listed = Listed<busy>::number;

}  // namespace

std::vector<HostKernel>& host_kernels() {
  static std::vector<HostKernel> kernels;
  return kernels;
}

}  // namespace unlatch::standin
