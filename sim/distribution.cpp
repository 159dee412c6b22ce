#include "sim/distribution.h"

#include <algorithm>
#include <cmath>

namespace unlatch::sim {

Distribution distribution(std::vector<nanoseconds> values) {
  Distribution result;
  result.runs = static_cast<int>(values.size());
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const nanoseconds value : values) sum += static_cast<double>(value.count());
  const double mean = sum / result.runs;
  result.mean = nanoseconds(std::llround(mean));
  double squares = 0;
  for (const nanoseconds value : values) {
    squares += std::pow(static_cast<double>(value.count()) - mean, 2);
  }
  constexpr double normal_95 = 1.959964;
  const double error =
      result.runs < 2 ? 0 : normal_95 * std::sqrt(squares / (result.runs - 1.0) / result.runs);
  result.mean_low = nanoseconds(std::llround(std::max(0.0, mean - error)));
  result.mean_high = nanoseconds(std::llround(mean + error));
  const auto percentile = [&](int percent) {
    const std::size_t rank = (values.size() * percent + 99) / 100;  // rounded up, from 1
    return values[rank - 1];
  };
  result.p50 = percentile(50);
  result.p95 = percentile(95);
  result.p99 = percentile(99);
  return result;
}

}  // namespace unlatch::sim
