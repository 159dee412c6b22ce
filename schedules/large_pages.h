// Memory in large pages, for arrays of many megabytes that are filled from end to end.
#pragma once

#include <cstddef>
#include <vector>

namespace unlatch {

/// Asks the system for large pages, where it has them and the array is long; else does nothing. One
/// fault then stands for 512: faults of usual pages take longer than building and simulating a
/// task.
void advise_large_pages(void* begin, std::size_t bytes);

template <class T>
void reserve_in_large_pages(std::vector<T>& array, std::size_t size) {
  array.reserve(size);
  advise_large_pages(array.data(), array.capacity() * sizeof(T));
}

}  // namespace unlatch
