// Tensor: a shared block of memory and where it returns to; shapes are known to those who use it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace unlatch::exec {

/// 64-byte aligned memory with shared ownership. Copying a Tensor shares the memory; writing to a
/// shared one is the writer's responsibility. The element type is the stage module's affair.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<std::byte> data, std::size_t bytes)
      : data_(std::move(data)), bytes_(bytes) {}

  bool empty() const { return bytes_ == 0; }
  std::size_t bytes() const { return bytes_; }
  /// So many bytes of the memory from there on, shared.
  Tensor part(std::size_t first, std::size_t bytes) const {
    return {{data_, data_.get() + first}, bytes};
  }
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  std::span<T> as() const {
    return {data<T>(), bytes_ / sizeof(T)};
  }

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t bytes_ = 0;
};

/// Writes `factor` times the sum of the tensors, in their order, into all of them.
template <class T>
void all_reduce_as(std::span<Tensor* const> tensors, double factor) {
  const std::span<T> sum = tensors.front()->as<T>();
  for (std::size_t c = 1; c < tensors.size(); ++c) {
    const std::span<const T> more = tensors[c]->as<T>();
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += more[j];
  }
  for (T& value : sum) value *= static_cast<T>(factor);
  for (Tensor* tensor : tensors.subspan(1)) {
    std::copy(sum.begin(), sum.end(), tensor->as<T>().begin());
  }
}

/// Hands out tensors and takes their memory back for the next of the same size. Thread-safe; must
/// outlive its tensors' users only in the sense of shared state: the memory itself is kept alive.
class BufferPool {
 public:
  BufferPool();
  ~BufferPool();
  /// Uninitialised memory. Throws std::bad_alloc.
  Tensor take(std::size_t bytes);
  Tensor take_zeroed(std::size_t bytes);
  Tensor copy_of(const Tensor& source);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace unlatch::exec
