#include "exec/cuda_code.h"

namespace unlatch::exec::cuda {
namespace {

/// Stands for all own kernels, which are compiled for the same architectures.
__global__ void any_kernel() {}

}  // namespace

std::vector<int> compiled_architectures() {
  std::vector<int> all = {__CUDA_ARCH_LIST__};  // 900 for 9.0
  for (int& architecture : all) architecture /= 10;
  return all;
}

cudaError_t find_code() {
  cudaFuncAttributes found;
  return cudaFuncGetAttributes(&found, any_kernel);
}

}  // namespace unlatch::exec::cuda
