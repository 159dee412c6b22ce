// Takes the place of exec/cuda_launch.cuh where the own kernels are compiled for the host: nothing
// is launched from there; each kernel is put into a list, where the stand-in's launches find it.
#pragma once

#include <cuda_runtime_api.h>
#include <math.h>  // isfinite without std::

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "exec/cuda_kernels.h"

// The threads of a block run one after the other, the last one first. That is right where a thread
// reads after __syncthreads() only what threads of higher numbers wrote, as in a tree of sums.
#undef __shared__
#define __shared__ static
inline void __syncthreads() {}
inline dim3 gridDim, blockDim;
inline uint3 blockIdx, threadIdx;

namespace unlatch::standin {

/// A kernel with arguments, as a function.
struct Bound {
  std::function<void(dim3 grid, dim3 block)> run;
  std::vector<const void*> words;  ///< of the arguments, among them all addresses
};

struct HostKernel {
  const std::type_info& type;  ///< void(arguments..)
  Bound (*bind)(void** arguments);
};

std::vector<HostKernel>& host_kernels();

template <auto kernel>
struct Listed;
template <class... A, void (*kernel)(A...)>
struct Listed<kernel> {
  static Bound bind(void** arguments) {
    const auto values = [arguments]<std::size_t... i>(std::index_sequence<i...>) {
      return std::tuple<A...>(*static_cast<A*>(arguments[i])...);
    }
    (std::index_sequence_for<A...>{});
    Bound bound;
    std::apply([&](const A&... value) { (add_words(bound.words, value), ...); }, values);
    bound.run = [values](dim3 grid, dim3 block) {
      gridDim = grid;
      blockDim = block;
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
        for (unsigned left = block.x; left > 0; --left) {
          threadIdx.x = left - 1;
          std::apply(kernel, values);
        }
      }
    };
    return bound;
  }
  /// Padding holds whatever was there, which together with a float may look like an address.
  template <class T>
  static void add_words(std::vector<const void*>& words, T value) {
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&value);
#endif
    const void* word = nullptr;
    for (std::size_t at = 0; at + sizeof(word) <= sizeof(value); at += sizeof(word)) {
      std::memcpy(&word, reinterpret_cast<const char*>(&value) + at, sizeof(word));
      words.push_back(word);
    }
  }
  static inline const std::size_t number = [] {
    host_kernels().push_back({typeid(void(A...)), bind});
    return host_kernels().size();
  }();
};

}  // namespace unlatch::standin

namespace unlatch::exec::cuda {

template <auto kernel, class... A>
void start(StreamHandle, unsigned, unsigned, A...) {
  (void)&standin::Listed<kernel>::number;
}

}  // namespace unlatch::exec::cuda
