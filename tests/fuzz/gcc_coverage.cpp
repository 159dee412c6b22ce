// Coverage for libFuzzer from code that GCC compiled: GCC calls one function a branch, libFuzzer
// reads counters.
#include <cstddef>
#include <cstdint>

extern "C" void __sanitizer_cov_8bit_counters_init(std::uint8_t* first, std::uint8_t* last);

namespace {

constexpr std::size_t counter_count = std::size_t{1} << 16;
std::uint8_t counters[counter_count];

struct Registration {
  Registration() { __sanitizer_cov_8bit_counters_init(counters, counters + counter_count); }
} const registration;

}  // namespace

/// Counts the place it is called from; two places may share a counter.
extern "C" __attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++counters[(place ^ (place >> 16)) % counter_count];
}

// libFuzzer compares integers alone.
extern "C" void __sanitizer_cov_trace_cmpf(float, float) {}
extern "C" void __sanitizer_cov_trace_cmpd(double, double) {}
