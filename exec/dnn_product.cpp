#include "exec/dnn_product.h"

#include <dnnl.h>

#include "schedules/error.h"

namespace unlatch::exec {
namespace {

dnnl_dim_t stride_or(dnnl_dim_t stride, dnnl_dim_t dense) { return stride == 0 ? dense : stride; }

}  // namespace

void multiply(const Product& p, const float* a, const float* b, float* c) {
  const dnnl_status_t status = dnnl_sgemm(
      p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', p.m, p.n, p.k, p.alpha, a,
      stride_or(p.a_stride, p.a_transposed ? p.m : p.k), b,
      stride_or(p.b_stride, p.b_transposed ? p.k : p.n), p.beta, c, stride_or(p.c_stride, p.n));
  if (status != dnnl_success) {
    throw RunError(
        fmt::format("oneDNN's matrix product of {}x{} by {}x{} failed with status {}; is memory "
                    "short?",
                    p.m, p.k, p.k, p.n, static_cast<int>(status)));
  }
}

}  // namespace unlatch::exec
