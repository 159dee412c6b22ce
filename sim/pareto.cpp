#include "sim/pareto.h"

#include <algorithm>

namespace unlatch::sim {

bool beats(const Price& a, const Price& b) {
  return a.period_ns <= b.period_ns && a.peak_bytes <= b.peak_bytes && a.staleness <= b.staleness &&
         a != b;
}

std::vector<bool> pareto_front(std::span<const Price> prices) {
  std::vector<bool> front;
  for (auto price = prices.begin(); price != prices.end(); ++price) {
    const bool known = std::find(prices.begin(), price, *price) != price;
    const bool beaten =
        std::ranges::any_of(prices, [&](const Price& other) { return beats(other, *price); });
    front.push_back(!known && !beaten);
  }
  return front;
}

}  // namespace unlatch::sim
