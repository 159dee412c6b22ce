// Memory in large pages, for arrays of many megabytes that are filled from end to end.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace unlatch {

/// Memory that begins on a large page and asks the system for such pages, where it has them. Throws
/// std::bad_alloc.
void* allocate_large_pages(std::size_t bytes);
void free_large_pages(void* memory, std::size_t bytes);

/// Like std::allocator, but long arrays lie in large pages. One fault then stands for 512: faults
/// of usual pages take longer than building and simulating a task.
template <class T>
struct LargePages {
  using value_type = T;

  LargePages() = default;
  template <class U>
  LargePages(const LargePages<U>&) {}

  static constexpr bool is_long(std::size_t size) {
    return size >= (std::size_t{1} << 20) / sizeof(T);
  }
  T* allocate(std::size_t size) {
    if (!is_long(size)) return std::allocator<T>().allocate(size);
    return static_cast<T*>(allocate_large_pages(size * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t size) {
    if (!is_long(size)) return std::allocator<T>().deallocate(memory, size);
    free_large_pages(memory, size * sizeof(T));
  }
  template <class U>
  friend bool operator==(LargePages, LargePages<U>) {
    return true;
  }
};

/// An array with an element or more a task.
template <class T>
using LongArray = std::vector<T, LargePages<T>>;

}  // namespace unlatch
