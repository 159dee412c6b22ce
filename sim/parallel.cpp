#include "sim/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace unlatch::sim {

void in_parallel(int count, const std::function<void(int)>& work) {
  std::atomic<int> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take = [&]() noexcept {
    try {
      for (int i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;  // the others stop
      const std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  {
    std::vector<std::jthread> helpers;
    for (int t = 1; t < std::min(cores, count); ++t) helpers.emplace_back(take);
    take();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace unlatch::sim
