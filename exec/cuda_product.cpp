#include "exec/cuda_product.h"

namespace unlatch::exec::cuda {
namespace {

cudaDataType_t cublas_type(Precision precision) {
  if (precision == Precision::bf16) return CUDA_R_16BF;
  return precision == Precision::fp16 ? CUDA_R_16F : CUDA_R_32F;
}

cublasOperation_t operation(bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

struct Matrix {
  const void* data;
  cudaDataType_t type;
  int stride;  ///< between columns, as cuBLAS sees it
};

/// C = op(A) op(B) + beta C with sums in float32; the name in C++ stands for two functions.
cublasStatus_t gemm_ex(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                       int n, int k, Matrix a, Matrix b, const float* beta, void* c,
                       cudaDataType_t type_of_c) {
  return cublasGemmEx(handle, op_a, op_b, m, n, k, &one, a.data, a.type, a.stride, b.data, b.type,
                      b.stride, beta, c, type_of_c, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

struct Matrices {
  const void* data;
  long long apart;
  cudaDataType_t type;
  int stride;
};

/// alpha by value: its address would not outlive the call of a graph that comes again.
cublasStatus_t gemm_batch(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                          int m, int n, int k, float alpha, Matrices a, Matrices b, Matrices c,
                          int count) {
  return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, &alpha, a.data, a.type, a.stride,
                                    a.apart, b.data, b.type, b.stride, b.apart, &zero,
                                    const_cast<void*>(c.data), c.type, c.stride, c.apart, count,
                                    CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

}  // namespace

/// cuBLAS is column-major: what it sees of a row-major matrix is the transpose, so the factors
/// change places.
void multiply(Device& device, const Product& p, const void* a, const void* b, void* c,
              Precision of_c) {
  const cudaDataType_t type = cublas_type(device.settings().precision);
  device.call("cublasGemmEx", gemm_ex, device.blas(), operation(p.b_transposed),
              operation(p.a_transposed), p.n, p.m, p.k, Matrix{b, type, p.b_transposed ? p.k : p.n},
              Matrix{a, type, p.a_transposed ? p.m : p.k}, p.adds ? &one : &zero, c,
              cublas_type(of_c));
}

void multiply_batch(Device& device, const BatchedProduct& p, const void* a, const void* b,
                    void* c) {
  const cudaDataType_t type = cublas_type(device.settings().precision);
  const auto matrices = [type](const void* data, const BatchedMatrix& form) {
    return Matrices{data, form.matrix, type, form.row};
  };
  device.call("cublasGemmStridedBatchedEx", gemm_batch, device.blas(),
              operation(p.product.b_transposed), operation(p.product.a_transposed), p.product.n,
              p.product.m, p.product.k, p.alpha, matrices(b, p.b), matrices(a, p.a),
              matrices(c, p.c), p.count);
}

}  // namespace unlatch::exec::cuda
