// The stand-in of cuBLAS: one product of matrices, by plain loops.
#include <cublas_v2.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tests/cuda/standin/device.h"
#include "tests/cuda/standin/numbers.h"

using namespace unlatch::standin;

struct cublasContext {
  int device = 0;
  cudaStream_t stream = nullptr;
  Range workspace{nullptr, 0};
  unsigned math = CUBLAS_DEFAULT_MATH;
};

namespace {

std::string& reason() {
  static auto& text = *new std::string;
  return text;
}
cublasStatus_t refuse(const char* why) {
  reason() = why;
  return CUBLAS_STATUS_INVALID_VALUE;
}

Number number_of(cudaDataType type) {
  if (type == CUDA_R_16BF) return Number::bfloat16;
  return type == CUDA_R_16F ? Number::half : Number::float32;
}

/// Column-major, as it lies in memory.
struct Matrix {
  const void* at;
  Number number;
  int rows, columns, stride;

  std::size_t elements() const {
    return static_cast<std::size_t>(stride) * static_cast<std::size_t>(columns - 1) +
           static_cast<std::size_t>(rows);
  }
  Range range() const { return {at, elements() * bytes_of(number)}; }
};

}  // namespace

cublasStatus_t cublasGetProperty(libraryPropertyType part, int* value) {
  const int version = settings().cublas != 0 ? settings().cublas : CUBLAS_VERSION;
  *value = part == MAJOR_VERSION   ? version / 10000
           : part == MINOR_VERSION ? version / 100 % 100
                                   : version % 100;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext{.device = World::instance().current};
  return CUBLAS_STATUS_SUCCESS;
}
/// It waits for the device.
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  World::instance().require_no_obstacle("cublasDestroy");
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
  static std::string text;
  text = fmt::format("CUBLAS_STATUS {} ({})", static_cast<int>(status), reason());
  return text.c_str();
}
/// Takes the workspace away, as cuBLAS does.
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (!World::instance().is_live(stream) || stream->device != handle->device) {
    return refuse("the stream is not of the handle's device");
  }
  if (handle->stream != nullptr && handle->stream != stream) return refuse("two streams");
  handle->stream = stream;
  handle->workspace = {nullptr, 0};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  handle->workspace = {workspace, bytes};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType type_a, int stride_a, const void* b, cudaDataType type_b,
                            int stride_b, const void* beta, void* c, cudaDataType type_c,
                            int stride_c, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool a_as_it_is = op_a == CUBLAS_OP_N, b_as_it_is = op_b == CUBLAS_OP_N;
  const Matrix of_a{a, number_of(type_a), a_as_it_is ? m : k, a_as_it_is ? k : m, stride_a};
  const Matrix of_b{b, number_of(type_b), b_as_it_is ? k : n, b_as_it_is ? n : k, stride_b};
  const Matrix of_c{c, number_of(type_c), m, n, stride_c};
  for (const Matrix& matrix : {of_a, of_b, of_c}) {
    if (matrix.stride < matrix.rows || matrix.columns < 1) return refuse("no matrix");
  }
  if (type_a != type_b || (type_c != type_a && type_c != CUDA_R_32F) ||
      compute != CUBLAS_COMPUTE_32F) {
    return refuse("types that do not go together");
  }
  if (handle->workspace.at == nullptr) return refuse("no workspace of the user's since SetStream");
  const float factor = *static_cast<const float*>(alpha), kept = *static_cast<const float*>(beta);
  const bool tf32 = (handle->math & CUBLAS_TF32_TENSOR_OP_MATH) != 0 && type_a == CUDA_R_32F;
  const cudaError_t error = put_kernel(
      "cublasGemmEx", handle->stream, {of_a.range(), of_b.range(), of_c.range(), handle->workspace},
      [=] {
        std::vector<float> as = floats(a, of_a.number, of_a.elements());
        std::vector<float> bs = floats(b, of_b.number, of_b.elements());
        std::vector<float> sums(of_c.elements());
        for (std::vector<float>* factors : {&as, &bs}) {
          if (tf32) std::ranges::transform(*factors, factors->begin(), as_tf32);
        }
        const std::ptrdiff_t a_row = a_as_it_is ? 1 : stride_a,
                             a_column = a_as_it_is ? stride_a : 1;
        const std::ptrdiff_t b_row = b_as_it_is ? 1 : stride_b,
                             b_column = b_as_it_is ? stride_b : 1;
        for (int column = 0; column < n; ++column) {
          float* to = &sums[static_cast<std::size_t>(column) * static_cast<std::size_t>(stride_c)];
          for (int i = 0; i < k; ++i) {
            const float x = bs[static_cast<std::size_t>(i * b_row + column * b_column)];
            for (int row = 0; row < m; ++row) {
              to[row] += x * as[static_cast<std::size_t>(row * a_row + i * a_column)];
            }
          }
        }
        blend(sums, factor, kept, c, of_c.number);
      });
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  reason() = cudaGetErrorString(error);
  return CUBLAS_STATUS_EXECUTION_FAILED;
}
