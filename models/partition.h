// Partition: contiguous slices of a chain of layers for stages.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace unlatch::models {

struct StageRange {
  int first = 0;  ///< first layer
  int last = 0;   ///< last layer, included
  double cost = 0;
  int layers() const { return last - first + 1; }
  friend bool operator==(const StageRange&, const StageRange&) = default;
};

/// Sizes differ by at most 1, larger first. Throws Error when there are fewer layers than stages.
std::vector<StageRange> uniform_partition(int layers, int stages);
/// The smallest largest load, every stage at least one layer, the same split every time (among the
/// optimal ones the least sum of squares, then the earliest cuts). Exact, by dynamic programming.
std::vector<StageRange> balanced_partition(std::span<const double> layer_costs, int stages);
/// What is known of the costs of stages, which spares looking at most of them.
enum class Price {
  any,
  grows,  ///< with one layer more, no stage gets cheaper
  sums    ///< over its layers, each of at least 0, the same on every stage
};
/// The same with a price that is not a sum (recompute counts on all stages but the last, say):
/// cost(first, last, stage).
std::vector<StageRange> best_partition(int layers, int stages,
                                       const std::function<double(int, int, int)>& cost,
                                       Price price = Price::any);
/// Explicit sizes "5/3/4". Throws Error unless they are positive and sum to `layers`.
std::vector<StageRange> explicit_partition(std::string_view sizes, int layers, int stages);
/// Fills in the costs as sums; returns the index of the largest (lowest on ties).
int bottleneck(std::vector<StageRange>& stages, std::span<const double> layer_costs);

}  // namespace unlatch::models
