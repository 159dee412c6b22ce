// check(): what a CUDA library call returned, as an exception with the call's name.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

namespace unlatch::exec::cuda {

/// Throws RunError "cudaMalloc: out of memory" unless the call succeeded; the backend adds the rank
/// and the task.
void check(cudaError_t status, const char* call);
void check(cudnnStatus_t status, const char* call);
void check(cublasStatus_t status, const char* call);
void check(ncclResult_t status, const char* call);

/// Once a device does not come to an end, whoever waits for it waits for ever, and freeing anything
/// may wait. What is left then stays until the process ends.
void give_up();
bool gave_up();

}  // namespace unlatch::exec::cuda
