#include "exec/cuda_sequence_kernels.h"

#include "exec/cuda_rows.cuh"

namespace unlatch::exec::cuda {
namespace {

// ---- embedding and GELU ------------------------------------------------------------------------

template <class T>
struct Embed {
  const T* tokens;
  const float* tables;
  T* y;
  EmbeddingShape shape;
  __device__ void operator()(std::size_t i) const { y[i] = T(embedded(shape, tokens, tables, i)); }
};

template <class T>
struct AddToTables {
  const T* tokens;
  const T* g;
  float* tables;
  EmbeddingShape shape;
  __device__ void operator()(std::size_t i) const {
    tables[i] += table_gradient(shape, tokens, g, i);
  }
};

template <class T>
struct Gelu {
  const T* x;
  T* y;
  __device__ void operator()(std::size_t i) const { y[i] = T(gelu(wide(x[i]))); }
};

template <class T>
struct GeluGradient {
  const T* x;
  const T* g;
  T* out;
  __device__ void operator()(std::size_t i) const {
    out[i] = T(gelu_gradient(wide(x[i]), wide(g[i])));
  }
};

// ---- layer norm --------------------------------------------------------------------------------

template <class T>
struct Means : Sum {
  const T* x;
  RowShape shape;
  float* mean;
  __device__ float share(int row, int part) const {
    float sum = 0;
    for (int c = part; c < shape.size; c += block) sum += wide(row_of(x, shape, row)[c]);
    return sum;
  }
  __device__ void end(int row, float sum) const { mean[row] = sum / shape.size; }
};

template <class T>
struct Inverses : Sum {
  const T* x;
  RowShape shape;
  float epsilon;
  const float* mean;
  float* inverse;
  __device__ float share(int row, int part) const {
    float sum = 0;
    for (int c = part; c < shape.size; c += block) {
      const float difference = wide(row_of(x, shape, row)[c]) - mean[row];
      sum += difference * difference;
    }
    return sum;
  }
  __device__ void end(int row, float sum) const {
    inverse[row] = 1 / std::sqrt(sum / shape.size + epsilon);
  }
};

template <class T>
struct Normalise {
  const T* x;
  RowNorms norms;
  const float* parameters;
  int size;
  T* y;
  __device__ void operator()(std::size_t i) const {
    const std::size_t row = i / size, column = i % size;
    y[i] = T(parameters[column] * normalised(norms, wide(x[i]), row) + parameters[size + column]);
  }
};

/// Means over a row of gamma g, or of that times the normalised input.
template <class T, bool of_product>
struct GradientMeans : Sum {
  const T* x;
  const T* g;
  const float* gamma;
  RowNorms norms;
  RowShape shape;
  float* mean;
  __device__ float share(int row, int part) const {
    float sum = 0;
    for (int c = part; c < shape.size; c += block) {
      const float scaled = gamma[c] * wide(row_of(g, shape, row)[c]);
      sum += of_product ? scaled * normalised(norms, wide(row_of(x, shape, row)[c]), row) : scaled;
    }
    return sum;
  }
  __device__ void end(int row, float sum) const { mean[row] = sum / shape.size; }
};

/// A block a column, and then as many for beta.
template <class T>
struct ParameterSums : Sum {
  const T* x;
  const T* g;
  RowNorms norms;
  RowShape shape;
  float* sums;
  __device__ float share(int which, int part) const {
    const int column = which % shape.size;
    float sum = 0;
    for (int row = part; row < shape.rows; row += block) {
      const float one_g = wide(row_of(g, shape, row)[column]);
      const bool of_gamma = which < shape.size;
      sum += of_gamma ? one_g * normalised(norms, wide(row_of(x, shape, row)[column]), row) : one_g;
    }
    return sum;
  }
  __device__ void end(int which, float sum) const { sums[which] = sum; }
};

template <class T>
struct NormGradient {
  const T* x;
  const T* g;
  const float* gamma;
  RowNorms norms;
  RowGradients means;
  int size;
  T* out;
  __device__ void operator()(std::size_t i) const {
    out[i] = T(norm_gradient(norms, means, wide(x[i]), gamma[i % size] * wide(g[i]), i / size));
  }
};

}  // namespace

void launch_embedding(StreamHandle stream, Precision precision, const void* tokens,
                      const float* tables, void* y, EmbeddingShape shape) {
  with_type(precision, [=](auto t) {
    launch(stream, elements({shape.rows, shape.width}),
           Embed<decltype(t)>{as(tokens, t), tables, as(y, t), shape});
  });
}

void launch_embedding_gradient(StreamHandle stream, Precision precision, const void* tokens,
                               const void* g, float* tables, EmbeddingShape shape) {
  with_type(precision, [=](auto t) {
    launch(stream, elements({shape.vocabulary + shape.positions, shape.width}),
           AddToTables<decltype(t)>{as(tokens, t), as(g, t), tables, shape});
  });
}

void launch_gelu(StreamHandle stream, Precision precision, const void* x, void* y, std::size_t n) {
  with_type(precision, [=](auto t) { launch(stream, n, Gelu<decltype(t)>{as(x, t), as(y, t)}); });
}

void launch_gelu_gradient(StreamHandle stream, Precision precision, const void* x, const void* g,
                          void* out, std::size_t n) {
  with_type(precision, [=](auto t) {
    launch(stream, n, GeluGradient<decltype(t)>{as(x, t), as(g, t), as(out, t)});
  });
}

void launch_layer_norm(StreamHandle stream, Precision precision, const void* x,
                       const float* parameters, float epsilon, float* mean, float* inverse, void* y,
                       RowShape shape) {
  with_type(precision, [=](auto t) {
    using T = decltype(t);
    launch_rows(stream, shape.rows, Means<T>{{}, as(x, t), shape, mean});
    launch_rows(stream, shape.rows, Inverses<T>{{}, as(x, t), shape, epsilon, mean, inverse});
    launch(stream, elements(shape),
           Normalise<T>{as(x, t), {mean, inverse}, parameters, shape.size, as(y, t)});
  });
}

void launch_layer_norm_gradient(StreamHandle stream, Precision precision, const void* x,
                                const void* g, const float* gamma, RowNorms norms, float* means,
                                float* sums, void* out, RowShape shape) {
  float* products = means + shape.rows;
  with_type(precision, [=](auto t) {
    using T = decltype(t);
    launch_rows(stream, shape.rows,
                GradientMeans<T, false>{{}, as(x, t), as(g, t), gamma, norms, shape, means});
    launch_rows(stream, shape.rows,
                GradientMeans<T, true>{{}, as(x, t), as(g, t), gamma, norms, shape, products});
    launch_rows(stream, 2 * shape.size,
                ParameterSums<T>{{}, as(x, t), as(g, t), norms, shape, sums});
    launch(stream, elements(shape),
           NormGradient<T>{
               as(x, t), as(g, t), gamma, norms, {means, products}, shape.size, as(out, t)});
  });
}

}  // namespace unlatch::exec::cuda
