#include "exec/cuda_check.h"

#include "schedules/error.h"

namespace unlatch::exec::cuda {
namespace {

bool has_given_up = false;

}  // namespace

void give_up() { has_given_up = true; }
bool gave_up() { return has_given_up; }

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // not sticky errors must not be blamed on the next launch
  throw RunError(fmt::format("{}: {}", call, cudaGetErrorString(status)));
}

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw RunError(fmt::format("{}: {}", call, cudnnGetErrorString(status)));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw RunError(fmt::format("{}: {}", call, cublasGetStatusString(status)));
}

void check(ncclResult_t status, const char* call) {
  if (status == ncclSuccess) return;
  const std::string more = ncclGetLastError(nullptr);
  throw RunError(
      fmt::format("{}: {}{}{}", call, ncclGetErrorString(status), more.empty() ? "" : ": ", more));
}

}  // namespace unlatch::exec::cuda
