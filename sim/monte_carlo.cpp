#include "sim/monte_carlo.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace unlatch::sim {

std::vector<nanoseconds> times_of_runs(int first, int runs,
                                       const std::function<nanoseconds(int run)>& time_of) {
  std::vector<nanoseconds> times(static_cast<std::size_t>(std::max(runs, 0)));
  std::atomic<int> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&]() noexcept {
    try {
      for (int i = next++; i < runs; i = next++) {
        times[static_cast<std::size_t>(i)] = time_of(first + i);
      }
    } catch (...) {
      next = runs;  // the others stop
      const std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  {
    std::vector<std::jthread> helpers;
    for (int t = 1; t < std::min(cores, runs); ++t) helpers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return times;
}

}  // namespace unlatch::sim
