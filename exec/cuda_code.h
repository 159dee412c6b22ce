// What the own kernels are compiled for, and whether a device can run any of it.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

namespace unlatch::exec::cuda {

/// Ten times the compute capabilities, as 75 and 90; by value, the least first.
std::vector<int> compiled_architectures();

/// What CUDA says when it looks for code for the current device: cudaErrorNoKernelImageForDevice
/// or cudaErrorInvalidDeviceFunction where none fits.
cudaError_t find_code();

}  // namespace unlatch::exec::cuda
