// Matrix products by oneDNN on row-major memory.
#pragma once

#include <dnnl_types.h>

namespace unlatch::exec {

/// C = alpha op(A) op(B) + beta C; op(A) is [m, k], op(B) is [k, n]. A stride lies between the rows
/// of a matrix as it is stored; 0: they lie densely.
struct Product {
  bool a_transposed;
  bool b_transposed;
  dnnl_dim_t m, n, k;
  float beta;
  float alpha = 1;
  dnnl_dim_t a_stride = 0, b_stride = 0, c_stride = 0;
};

/// Throws RunError.
void multiply(const Product& product, const float* a, const float* b, float* c);

}  // namespace unlatch::exec
