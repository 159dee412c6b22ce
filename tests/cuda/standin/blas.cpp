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

namespace {

/// op(A) is [m, k], op(B) is [k, n].
struct Form {
  bool a_as_it_is, b_as_it_is;
  int m, n, k;

  Matrix a(const void* at, cudaDataType type, int stride) const {
    return {at, number_of(type), a_as_it_is ? m : k, a_as_it_is ? k : m, stride};
  }
  Matrix b(const void* at, cudaDataType type, int stride) const {
    return {at, number_of(type), b_as_it_is ? k : n, b_as_it_is ? n : k, stride};
  }
  Matrix c(const void* at, cudaDataType type, int stride) const {
    return {at, number_of(type), m, n, stride};
  }
};

/// `count` products of matrices that lie so far apart, in elements.
struct Products {
  Form form;
  Matrix a, b, c;
  std::ptrdiff_t a_apart = 0, b_apart = 0, c_apart = 0;
  int count = 1;
  float factor, kept;
};

const void* element(const Matrix& matrix, std::ptrdiff_t at) {
  return static_cast<const std::byte*>(matrix.at) +
         at * static_cast<std::ptrdiff_t>(bytes_of(matrix.number));
}

/// All that one call reads, or writes, gaps between the matrices included.
Range range_of(const Matrix& matrix, std::ptrdiff_t apart, int count) {
  const std::size_t before = static_cast<std::size_t>(apart) * static_cast<std::size_t>(count - 1);
  return {matrix.at, (before + matrix.elements()) * bytes_of(matrix.number)};
}

void multiply(const Products& p, int which, bool tf32) {
  std::vector<float> as = floats(element(p.a, which * p.a_apart), p.a.number, p.a.elements());
  std::vector<float> bs = floats(element(p.b, which * p.b_apart), p.b.number, p.b.elements());
  std::vector<float> sums(p.c.elements());
  for (std::vector<float>* factors : {&as, &bs}) {
    if (tf32) std::ranges::transform(*factors, factors->begin(), as_tf32);
  }
  const std::ptrdiff_t a_row = p.form.a_as_it_is ? 1 : p.a.stride,
                       a_column = p.form.a_as_it_is ? p.a.stride : 1;
  const std::ptrdiff_t b_row = p.form.b_as_it_is ? 1 : p.b.stride,
                       b_column = p.form.b_as_it_is ? p.b.stride : 1;
  for (int column = 0; column < p.form.n; ++column) {
    float* to = &sums[static_cast<std::size_t>(column) * static_cast<std::size_t>(p.c.stride)];
    for (int i = 0; i < p.form.k; ++i) {
      const float x = bs[static_cast<std::size_t>(i * b_row + column * b_column)];
      for (int row = 0; row < p.form.m; ++row) {
        to[row] += x * as[static_cast<std::size_t>(row * a_row + i * a_column)];
      }
    }
  }
  for (int column = 0; column < p.form.n; ++column) {  // what lies between them stays
    const std::ptrdiff_t first = std::ptrdiff_t{column} * p.c.stride;
    const std::vector<float> of_column(sums.begin() + first, sums.begin() + first + p.form.m);
    blend(of_column, p.factor, p.kept, const_cast<void*>(element(p.c, which * p.c_apart + first)),
          p.c.number);
  }
}

cublasStatus_t put_products(const char* name, cublasHandle_t handle, const Products& p,
                            cublasComputeType_t compute) {
  for (const Matrix& matrix : {p.a, p.b, p.c}) {
    if (matrix.stride < matrix.rows || matrix.columns < 1) return refuse("no matrix");
  }
  if (p.a.number != p.b.number || (p.c.number != p.a.number && p.c.number != Number::float32) ||
      compute != CUBLAS_COMPUTE_32F) {
    return refuse("types that do not go together");
  }
  if (handle->workspace.at == nullptr) return refuse("no workspace of the user's since SetStream");
  const bool tf32 =
      (handle->math & CUBLAS_TF32_TENSOR_OP_MATH) != 0 && p.a.number == Number::float32;
  const cudaError_t error =
      put_kernel(name, handle->stream,
                 {range_of(p.a, p.a_apart, p.count), range_of(p.b, p.b_apart, p.count),
                  range_of(p.c, p.c_apart, p.count), handle->workspace},
                 [=] {
                   for (int which = 0; which < p.count; ++which) multiply(p, which, tf32);
                 });
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  reason() = cudaGetErrorString(error);
  return CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType type_a, int stride_a, const void* b, cudaDataType type_b,
                            int stride_b, const void* beta, void* c, cudaDataType type_c,
                            int stride_c, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const Form form{op_a == CUBLAS_OP_N, op_b == CUBLAS_OP_N, m, n, k};
  return put_products("cublasGemmEx", handle,
                      {.form = form,
                       .a = form.a(a, type_a, stride_a),
                       .b = form.b(b, type_b, stride_b),
                       .c = form.c(c, type_c, stride_c),
                       .factor = *static_cast<const float*>(alpha),
                       .kept = *static_cast<const float*>(beta)},
                      compute);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a,
                                          cublasOperation_t op_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType type_a,
                                          int stride_a, long long a_apart, const void* b,
                                          cudaDataType type_b, int stride_b, long long b_apart,
                                          const void* beta, void* c, cudaDataType type_c,
                                          int stride_c, long long c_apart, int count,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  const Form form{op_a == CUBLAS_OP_N, op_b == CUBLAS_OP_N, m, n, k};
  return put_products("cublasGemmStridedBatchedEx", handle,
                      {.form = form,
                       .a = form.a(a, type_a, stride_a),
                       .b = form.b(b, type_b, stride_b),
                       .c = form.c(c, type_c, stride_c),
                       .a_apart = static_cast<std::ptrdiff_t>(a_apart),
                       .b_apart = static_cast<std::ptrdiff_t>(b_apart),
                       .c_apart = static_cast<std::ptrdiff_t>(c_apart),
                       .count = count,
                       .factor = *static_cast<const float*>(alpha),
                       .kept = *static_cast<const float*>(beta)},
                      compute);
}
