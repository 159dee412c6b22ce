#include "exec/tensor.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace unlatch::exec {
namespace {

constexpr std::size_t alignment = 64;  // a cache line; the widest vector loads

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

struct BufferPool::State {
  std::mutex mutex;
  std::unordered_map<std::size_t, std::vector<std::byte*>> free;  // by rounded size

  ~State() {
    for (auto& [size, buffers] : free) {
      for (std::byte* buffer : buffers) std::free(buffer);
    }
  }

  /// The buffer returned last comes first: its lines are the likeliest to be in a cache.
  std::byte* take(std::size_t size) {
    {
      const std::scoped_lock lock(mutex);
      std::vector<std::byte*>& buffers = free[size];
      if (!buffers.empty()) {
        std::byte* buffer = buffers.back();
        buffers.pop_back();
        return buffer;
      }
    }
    void* fresh = std::aligned_alloc(alignment, size);
    if (fresh == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(fresh);
  }

  void give_back(std::byte* buffer, std::size_t size) noexcept {
    try {
      const std::scoped_lock lock(mutex);
      free[size].push_back(buffer);
    } catch (const std::bad_alloc&) {
      std::free(buffer);
    }
  }
};

BufferPool::BufferPool() : state_(std::make_shared<State>()) {}
BufferPool::~BufferPool() = default;

Tensor BufferPool::take(std::size_t bytes) {
  if (bytes == 0) return {};
  const std::size_t size = rounded_up(bytes);
  std::byte* buffer = state_->take(size);
  return {{buffer, [state = state_, size](std::byte* b) { state->give_back(b, size); }}, bytes};
}

Tensor BufferPool::take_zeroed(std::size_t bytes) {
  Tensor tensor = take(bytes);
  if (bytes != 0) std::memset(tensor.data<std::byte>(), 0, bytes);
  return tensor;
}

Tensor BufferPool::copy_of(const Tensor& source) {
  Tensor tensor = take(source.bytes());
  if (!source.empty()) {
    std::memcpy(tensor.data<std::byte>(), source.data<std::byte>(), source.bytes());
  }
  return tensor;
}

}  // namespace unlatch::exec
