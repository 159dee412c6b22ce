#include "exec/cuda_versions.h"

#include "exec/cuda_check.h"
#include "exec/cuda_code.h"
#include "schedules/error.h"

namespace unlatch::exec::cuda {
namespace {

std::string cuda_version(int number) {  // 13000 is 13.0
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

std::string capability(int architecture) {  // 90 is 9.0
  return fmt::format("{}.{}", architecture / 10, architecture % 10);
}

/// As a number like those of cuDNN and NCCL.
std::size_t blas_version() {
  std::size_t number = 0;
  for (const auto part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    int value = 0;
    check(cublasGetProperty(part, &value), "cublasGetProperty");
    number = number * 100 + static_cast<std::size_t>(value);
  }
  return number;
}

/// cuDNN and NCCL count 90100 for 9.1.0.
std::string decimal_version(std::size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

}  // namespace

std::string library_versions() {
  int runtime = 0, driver = 0, nccl = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");  // 0: there is none
  check(ncclGetVersion(&nccl), "ncclGetVersion");
  const std::size_t dnn = cudnnGetVersion();
  const std::size_t blas = blas_version();
  const std::string text = fmt::format(
      "CUDA {} (loaded {}, driver {}), cuBLAS {} (loaded {}), cuDNN {} (loaded {}), NCCL {} "
      "(loaded {})",
      cuda_version(CUDART_VERSION), cuda_version(runtime),
      driver == 0 ? "none" : cuda_version(driver), decimal_version(CUBLAS_VERSION),
      decimal_version(blas), decimal_version(CUDNN_VERSION), decimal_version(dnn),
      decimal_version(NCCL_VERSION_CODE), decimal_version(nccl));
  const bool runtime_goes = runtime / 1000 == CUDART_VERSION / 1000 && runtime >= CUDART_VERSION;
  const bool blas_goes = blas / 10000 == CUBLAS_VER_MAJOR && blas >= CUBLAS_VERSION;
  const bool dnn_goes = dnn / 10000 == CUDNN_MAJOR && dnn >= CUDNN_VERSION;
  const bool nccl_goes = nccl / 10000 == NCCL_MAJOR && nccl >= NCCL_VERSION_CODE;
  require(runtime_goes && blas_goes && dnn_goes && nccl_goes,
          "the CUDA library of unlatch needs the CUDA runtime, cuBLAS, cuDNN and NCCL it was "
          "compiled with, or newer ones of the same major versions: {}",
          text);
  require(driver == 0 || driver / 1000 >= runtime / 1000,
          "the driver of this machine is for CUDA {}, the CUDA runtime needs one for {} or newer; "
          "install a newer driver: {}",
          cuda_version(driver), cuda_version(runtime / 1000 * 1000), text);
  return text;
}

void require_code_for(std::span<const int> devices) {
  for (const int device : devices) {
    check(cudaSetDevice(device), "cudaSetDevice");
    const cudaError_t status = find_code();
    if (status == cudaSuccess) continue;
    if (status != cudaErrorNoKernelImageForDevice && status != cudaErrorInvalidDeviceFunction) {
      check(status, "cudaFuncGetAttributes");
    }
    cudaGetLastError();  // told here
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    std::string compiled;
    for (const int architecture : compiled_architectures()) {
      compiled += fmt::format("{}{}", compiled.empty() ? "" : ", ", capability(architecture));
    }
    fail(
        "device {} ({}) has compute capability {}.{}, and the CUDA library of unlatch is compiled "
        "for "
        "{}; configure it with -DCMAKE_CUDA_ARCHITECTURES={}{}",
        device, properties.name, properties.major, properties.minor, compiled, properties.major,
        properties.minor);
  }
}

}  // namespace unlatch::exec::cuda
