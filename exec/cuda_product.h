// Matrix products by cuBLAS on row-major memory, in the precision of the run with sums in float32.
#pragma once

#include "exec/cuda_op.h"

namespace unlatch::exec::cuda {

/// C = op(A) op(B), or added to C; row-major, dense; op(A) is [m, k], op(B) is [k, n].
struct Product {
  bool a_transposed;
  bool b_transposed;
  int m, n, k;
  bool adds = false;
};

void multiply(Device& device, const Product& product, const void* a, const void* b, void* c,
              Precision of_c);

/// One of many matrices of one form: numbers between its rows, and between the matrices.
struct BatchedMatrix {
  int row;
  std::int64_t matrix;
};
/// C = alpha op(A) op(B) of `count` of them at once.
struct BatchedProduct {
  Product product;
  float alpha;
  BatchedMatrix a, b, c;
  int count;
};

void multiply_batch(Device& device, const BatchedProduct& product, const void* a, const void* b,
                    void* c);

}  // namespace unlatch::exec::cuda
