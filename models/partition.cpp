// Partitions of a chain: uniform, explicit, and the exact best by dynamic programming.
#include "models/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "models/specification.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

/// Costs closer than this (relative) are equal: sums of the same layers in another order.
constexpr double tolerance = 1e-12;
constexpr double infinity = std::numeric_limits<double>::infinity();

void require_enough(int layers, int stages) {
  require(stages >= 1, "partition: the number of stages must be at least 1, not {}", stages);
  require(layers >= stages,
          "partition: {} layers cannot fill {} stages, every stage needs at least one layer; ask "
          "for at most {} stages",
          layers, stages, layers);
}

/// Best values of layers i.. on stages s..: one row a stage, from the last stage backwards.
class SuffixTable {
 public:
  using Cost = std::function<double(int first, int last, int stage)>;

  SuffixTable(int layers, int stages, const Cost& cost, Price price)
      : layers_(layers), stages_(stages), cost_(cost), price_(price) {}

  /// The smallest possible largest cost.
  double smallest_bottleneck() {
    return fill([](double stage, double rest) { return std::max(stage, rest); });
  }

  /// Among partitions with no stage above `most`: the least sum of squares, then the earliest cuts.
  std::vector<StageRange> evenest(double most) {
    const auto squares = [most](double stage, double rest) {
      return stage <= most ? stage * stage + rest : infinity;
    };
    fill(squares);
    std::vector<StageRange> ranges;
    int first = 0;
    for (int s = 0; s < stages_; ++s) {
      const double best = at(s, first) * (1 + tolerance);
      int last = first;
      while (squares(cost_(first, last, s), at(s + 1, last + 1)) > best) ++last;
      ranges.push_back({first, last, cost_(first, last, s)});
      first = last + 1;
    }
    return ranges;
  }

 private:
  template <class Combine>
  double fill(const Combine& combine) {
    values_.assign(static_cast<std::size_t>(stages_ + 1) * (layers_ + 1), infinity);
    at(stages_, layers_) = 0;
    for (int s = stages_ - 1; s >= 0; --s) {
      const int end = layers_ - (stages_ - 1 - s);  // later stages need a layer each
      if (price_ == Price::sums) {
        fill_row(s, {s, end - 1}, {s, end - 1}, combine);
      } else {
        for (int first = s; first < end; ++first) fill_one(s, first, {first, end - 1}, combine);
      }
    }
    return at(0, 0);
  }

  struct Layers {
    int first, last;
  };

  /// Both ways to combine have their earliest best last layers in the order of the first ones, as
  /// prices are sums: largest ones, and squares (the quadrangle inequality). Where a first layer
  /// has no possible last one, those before it have none either.
  template <class Combine>
  void fill_row(int stage, Layers firsts, Layers lasts, const Combine& combine) {
    if (firsts.first > firsts.last) return;
    const int middle = firsts.first + (firsts.last - firsts.first) / 2;
    const Layers possible{std::max(middle, lasts.first), lasts.last};
    const int best = fill_one(stage, middle, possible, combine);
    const bool none = best < 0;
    if (!none) fill_row(stage, {firsts.first, middle - 1}, {lasts.first, best}, combine);
    fill_row(stage, {middle + 1, firsts.last}, {none ? lasts.first : best, lasts.last}, combine);
  }

  /// The last layer of the stage that is best, the earliest of equal ones; -1 where none is
  /// possible.
  template <class Combine>
  int fill_one(int stage, int first, Layers lasts, const Combine& combine) {
    int best = -1;
    for (int last = lasts.first; last <= lasts.last; ++last) {
      const double cost = cost_(first, last, stage);
      if (price_ != Price::any && combine(cost, 0) >= at(stage, first)) break;
      const double value = combine(cost, at(stage + 1, last + 1));
      if (value >= at(stage, first)) continue;
      at(stage, first) = value;
      best = last;
    }
    return best;
  }

  double& at(int stage, int layer) {
    return values_[static_cast<std::size_t>(stage) * (layers_ + 1) + layer];
  }

  int layers_;
  int stages_;
  const Cost& cost_;
  Price price_;
  std::vector<double> values_;
};

}  // namespace

std::vector<StageRange> uniform_partition(int layers, int stages) {
  require_enough(layers, stages);
  std::vector<StageRange> ranges;
  int first = 0;
  for (int k = 0; k < stages; ++k) {
    const int size = layers / stages + (k < layers % stages ? 1 : 0);
    ranges.push_back({first, first + size - 1, 0});
    first += size;
  }
  return ranges;
}

std::vector<StageRange> best_partition(int layers, int stages,
                                       const std::function<double(int, int, int)>& cost,
                                       Price price) {
  require_enough(layers, stages);
  SuffixTable table(layers, stages, cost, price);
  const double most = table.smallest_bottleneck();
  require(std::isfinite(most), "partition: no split of {} layers on {} stages has a finite cost",
          layers, stages);
  return table.evenest(most * (1 + tolerance));
}

std::vector<StageRange> balanced_partition(std::span<const double> layer_costs, int stages) {
  std::vector<double> before(layer_costs.size() + 1, 0.0);
  for (std::size_t j = 0; j < layer_costs.size(); ++j) {
    require(std::isfinite(layer_costs[j]) && layer_costs[j] >= 0,
            "partition: the cost of layer {} must be a number of at least 0, not {}", j,
            layer_costs[j]);
    before[j + 1] = before[j] + layer_costs[j];
  }
  auto ranges = best_partition(
      static_cast<int>(layer_costs.size()), stages,
      [&](int first, int last, int) { return before[last + 1] - before[first]; }, Price::sums);
  bottleneck(ranges, layer_costs);
  return ranges;
}

std::vector<StageRange> explicit_partition(std::string_view sizes, int layers, int stages) {
  std::vector<StageRange> ranges;
  std::int64_t first = 0;
  for (std::string_view part : split(sizes, '/')) {
    int size = 0;
    require(parse_whole(part, size) && size >= 1,
            "partition '{}': sizes are whole numbers from 1 with slashes between them, as in "
            "5/3/4, not '{}'",
            sizes, part);
    ranges.push_back({static_cast<int>(first), static_cast<int>(first + size - 1), 0});
    first += size;
    require(first <= layers, "partition '{}': the sizes sum to more than the {} layers there are",
            sizes, layers);
  }
  require(static_cast<int>(ranges.size()) == stages,
          "partition '{}': {} sizes for {} stages; give one size a stage", sizes, ranges.size(),
          stages);
  require(first == layers,
          "partition '{}': the sizes sum to {}, but there are {} layers; every layer belongs to "
          "one stage",
          sizes, first, layers);
  return ranges;
}

int bottleneck(std::vector<StageRange>& stages, std::span<const double> layer_costs) {
  int worst = 0;
  for (std::size_t k = 0; k < stages.size(); ++k) {
    StageRange& range = stages[k];
    require(range.first >= 0 && range.last < static_cast<int>(layer_costs.size()),
            "partition: stage {} holds layers {} to {}, but costs are given for {} layers", k,
            range.first, range.last, layer_costs.size());
    range.cost = 0;
    for (int j = range.first; j <= range.last; ++j) range.cost += layer_costs[j];
    if (range.cost > stages[worst].cost) worst = static_cast<int>(k);
  }
  return worst;
}

}  // namespace unlatch::models
