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

}  // namespace unlatch::exec::cuda
