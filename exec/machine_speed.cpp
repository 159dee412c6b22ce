#include "exec/machine_speed.h"

#include <dnnl.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "exec/dnn_threads.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;
using Seconds = std::chrono::duration<double>;

constexpr Seconds measuring{0.3};  ///< of each thread and kind of work

/// Of the fastest call; the first is left out.
double seconds_a_call(const std::function<void()>& call) {
  call();
  std::vector<double> times;
  const auto end = Clock::now() + measuring;
  while (times.size() < 3 || Clock::now() < end) {
    const auto start = Clock::now();
    call();
    times.push_back(Seconds(Clock::now() - start).count());
  }
  return std::ranges::min(times);
}

/// The mean over threads that all do the same at once, each on data of its own.
double on_all_cores(int cores, const std::function<double()>& seconds) {
  std::vector<double> times(static_cast<std::size_t>(cores));
  std::vector<std::exception_ptr> failures(times.size());
  std::barrier together(cores);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < times.size(); ++t) {
      threads.emplace_back([&, t] {
        use_one_maths_thread();
        together.arrive_and_wait();
        try {
          times[t] = seconds();
        } catch (...) {
          failures[t] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return std::reduce(times.begin(), times.end()) / cores;
}

/// A square product of n x n matrices.
double product_seconds(dnnl_dim_t n) {
  const auto elements = static_cast<std::size_t>(n * n);
  const std::vector<float> a(elements, 0.5F), b(elements, 0.25F);
  std::vector<float> c(elements);
  return seconds_a_call([&] {
    const dnnl_status_t status =
        dnnl_sgemm('N', 'N', n, n, n, 1.0F, a.data(), n, b.data(), n, 0.0F, c.data(), n);
    if (status != dnnl_success) throw RunError("oneDNN's matrix product failed");
  });
}

constexpr std::size_t triad_elements = std::size_t{1} << 23;  ///< 32 MiB: beyond a core's caches

double triad_seconds() {
  std::vector<float> a(triad_elements), b(triad_elements, 1.0F), c(triad_elements, 2.0F);
  return seconds_a_call([&] {
    for (std::size_t i = 0; i < triad_elements; ++i) a[i] = b[i] + 3.0F * c[i];
    std::swap(a, b);  // what was written is read, so that no pass can be left out
  });
}

constexpr std::size_t block_bytes = std::size_t{1} << 20;

/// Two threads that take turns.
class Turns {
 public:
  /// Waits until the other thread has given the turn.
  void await(int turn) const {
    constexpr unsigned spins = 1024;  // then somebody else may have the core
    for (unsigned i = 1; turn_.load(std::memory_order_acquire) != turn; ++i) {
      if (i % spins == 0) std::this_thread::yield();
    }
  }
  void give(int turn) { turn_.store(turn, std::memory_order_release); }

 private:
  std::atomic<int> turn_{0};
};

constexpr int exchanges = 300;

/// Of the fastest turn of the second thread.
double copy_seconds() {
  std::vector<char> block(block_bytes), own(block_bytes);
  std::vector<double> times;
  Turns turns;
  const std::jthread writer([&] {
    for (int i = 0; i < exchanges; ++i) {
      turns.await(0);
      std::ranges::fill(block, static_cast<char>(i));
      turns.give(1);
    }
  });
  for (int i = 0; i < exchanges; ++i) {
    turns.await(1);
    const auto start = Clock::now();
    std::ranges::copy(block, own.begin());
    times.push_back(Seconds(Clock::now() - start).count());
    turns.give(0);
  }
  return std::ranges::min(times);
}

/// Half of the fastest message there and back.
double hop_seconds() {
  std::vector<double> times;
  Turns turns;
  const std::jthread echo([&] {
    for (int i = 0; i < exchanges; ++i) {
      turns.await(1);
      turns.give(0);
    }
  });
  for (int i = 0; i < exchanges; ++i) {
    const auto start = Clock::now();
    turns.give(1);
    turns.await(0);
    times.push_back(Seconds(Clock::now() - start).count() / 2);
  }
  return std::ranges::min(times);
}

nanoseconds whole(double seconds) { return std::chrono::round<nanoseconds>(Seconds(seconds)); }

}  // namespace

MachineSpeed measure_machine() {
  MachineSpeed speed{.cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()))};
  constexpr dnnl_dim_t large = 512, small = 1;
  constexpr double flops_a_product = 2.0 * large * large * large;
  constexpr double bytes_a_triad = 3.0 * triad_elements * sizeof(float);
  const auto all = [&](const auto& seconds) { return on_all_cores(speed.cores, seconds); };
  speed.flops = flops_a_product / all([] { return product_seconds(large); });
  speed.memory_rate = bytes_a_triad / all(triad_seconds);
  speed.launch = whole(all([] { return product_seconds(small); }));
  speed.copy_rate = block_bytes / copy_seconds();
  speed.hop = std::max(nanoseconds(1), whole(hop_seconds()));
  return speed;
}

}  // namespace unlatch::exec
