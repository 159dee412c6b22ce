#include "exec/cuda_dropout_kernels.h"

#include "exec/cuda_each.cuh"

namespace unlatch::exec::cuda {
namespace {

struct DrawMask {
  models::DropoutMask mask;
  std::int64_t of_sample;
  std::uint8_t* kept;
  __device__ void operator()(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    kept[i] = mask.keeps(at / of_sample, at % of_sample) ? 1 : 0;
  }
};

template <class T>
struct Masked {
  float factor;
  const std::uint8_t* kept;
  const T* x;
  T* y;
  __device__ void operator()(std::size_t i) const {
    y[i] = T(kept[i] ? factor * wide(x[i]) : 0.0F);
  }
};

}  // namespace

void launch_draw_mask(StreamHandle stream, models::DropoutMask mask, std::int64_t of_sample,
                      std::uint8_t* kept, std::size_t n) {
  launch(stream, n, DrawMask{mask, of_sample, kept});
}

void launch_masked(StreamHandle stream, Precision precision, float factor, const std::uint8_t* kept,
                   const void* x, void* y, std::size_t n) {
  with_type(precision, [=](auto t) {
    launch(stream, n, Masked<decltype(t)>{factor, kept, as(x, t), as(y, t)});
  });
}

}  // namespace unlatch::exec::cuda
