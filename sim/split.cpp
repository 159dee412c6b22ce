#include "sim/split.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "schedules/error.h"

namespace unlatch::sim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::vector<double> sums_of(const std::vector<double>& values) {
  std::vector<double> sums(values.size() + 1, 0.0);
  for (std::size_t j = 0; j < values.size(); ++j) sums[j + 1] = sums[j] + values[j];
  return sums;
}

double between(const std::vector<double>& sums, int first, int last) {
  return sums[at(last + 1)] - sums[at(first)];
}

/// Loads and passages of all runs of layers on all stages; infinite where a stage cannot hold them.
class StageTable {
 public:
  StageTable(const StageSums& sums, std::optional<std::int64_t> limit)
      : layers_(sums.layers()), stages_(sums.stages()) {
    cells_.resize(at(stages_) * at(layers_) * at(layers_));
    for (int k = 0; k < stages_; ++k) {
      for (int first = 0; first < layers_; ++first) {
        for (int last = first; last < layers_; ++last) {
          if (limit && sums.bytes(first, last, k) > static_cast<double>(*limit)) continue;
          cell(first, last, k) = {sums.load(first, last, k), sums.passage(first, last, k)};
        }
      }
    }
  }

  /// Different loads from `least` on, in order; evenly chosen ones where there are many.
  std::vector<double> bounds(double least) const {
    std::vector<double> loads;
    for (const Cell& cell : cells_) {
      if (cell.load >= least && cell.load < infinity) loads.push_back(cell.load);
    }
    std::ranges::sort(loads);
    loads.erase(std::ranges::unique(loads).begin(), loads.end());
    const std::size_t most = std::max<std::size_t>(4, most_looks / cells_.size());
    if (loads.size() <= most) return loads;
    std::vector<double> chosen;
    for (std::size_t c = 0; c < most; ++c)
      chosen.push_back(loads[c * (loads.size() - 1) / (most - 1)]);
    return chosen;
  }

  /// The least sum of passages with no load above the bound.
  std::pair<Split, double> quickest(double bound) const {
    // rest[k][first]: of layers first.. on stages k..
    std::vector<std::vector<double>> rest(at(stages_ + 1),
                                          std::vector<double>(at(layers_ + 1), infinity));
    std::vector<std::vector<int>> lasts(at(stages_), std::vector<int>(at(layers_), -1));
    rest[at(stages_)][at(layers_)] = 0;
    for (int k = stages_ - 1; k >= 0; --k) {
      for (int first = k; first < layers_; ++first) {
        for (int last = first; last < layers_; ++last) {
          const Cell& here = cell(first, last, k);
          const double sum = here.passage + rest[at(k + 1)][at(last + 1)];
          if (here.load > bound || sum >= rest[at(k)][at(first)]) continue;
          rest[at(k)][at(first)] = sum;
          lasts[at(k)][at(first)] = last;
        }
      }
    }
    Split split;
    for (int k = 0, first = 0; k < stages_ && rest[0][0] < infinity; ++k) {
      split.push_back({first, lasts[at(k)][at(first)], 0});
      first = split.back().last + 1;
    }
    return {std::move(split), rest[0][0]};
  }

 private:
  struct Cell {
    double load = infinity, passage = infinity;
  };
  static constexpr std::size_t most_looks = 20'000'000;  ///< of all bounds together, at cells

  const Cell& cell(int first, int last, int stage) const {
    return cells_[(at(stage) * at(layers_) + at(first)) * at(layers_) + at(last)];
  }
  Cell& cell(int first, int last, int stage) {
    return const_cast<Cell&>(std::as_const(*this).cell(first, last, stage));
  }

  int layers_, stages_;
  std::vector<Cell> cells_;
};

}  // namespace

std::string text_of(const Split& split) {
  std::vector<int> sizes;
  for (const models::StageRange& stage : split) sizes.push_back(stage.layers());
  return fmt::format("{}", fmt::join(sizes, "/"));
}

StageSums::StageSums(const LayerFacts& layers, PipelineFacts pipeline)
    : pipeline_(std::move(pipeline)),
      update_(sums_of(layers.update)),
      recompute_(sums_of(layers.recompute)),
      tape_(sums_of(layers.tape_bytes)),
      half_tape_(sums_of(layers.half_tape_bytes)),
      weight_(sums_of(layers.weight_bytes)),
      state_(sums_of(layers.state_bytes)),
      handover_in_(layers.handover_in),
      handover_out_(layers.handover_out),
      output_(layers.output_bytes),
      input_(layers.input_bytes) {
  std::vector<double> work;
  for (std::size_t j = 0; j < layers.forward.size(); ++j) {
    work.push_back(layers.forward[j] + layers.backward[j]);
  }
  work_ = sums_of(work);
}

double StageSums::work(int first, int last, int stage) const {
  double work = between(work_, first, last);
  work += pipeline_.stages[at(stage)].recomputed * between(recompute_, first, last);
  if (first > 0) work += handover_in_[at(first)];
  if (last + 1 < layers()) work += handover_out_[at(last)];
  return work;
}

double StageSums::message(int last, int stage) const {
  if (last + 1 == layers()) return 0;
  const Way& way = pipeline_.stages[at(stage)].to_next;
  return way.latency_ns + way.ns_per_byte * output_[at(last)];
}

double StageSums::load(int first, int last, int stage) const {
  const double update = between(update_, first, last) / micro_batches();
  return std::max(work(first, last, stage) + update, message(last, stage));
}

double StageSums::passage(int first, int last, int stage) const {
  return work(first, last, stage) + 2 * message(last, stage);
}

double StageSums::bytes(int first, int last, int stage) const {
  return most_bytes(pipeline_.stages[at(stage)].holdings,
                    {.tape = between(tape_, first, last),
                     .half_tape = between(half_tape_, first, last),
                     .input = first == 0 ? input_ : output_[at(first - 1)],
                     .version = between(weight_, first, last),
                     .always = between(state_, first, last)});
}

double StageSums::floor(const Split& split) const {
  constexpr int tasks = 4;  // F, R, I, W
  double most = 0;
  for (const std::vector<int>& stages : pipeline_.ranks) {
    double sum = 0;
    for (const int k : stages) {
      sum += work(split[at(k)].first, split[at(k)].last, k) - tasks;
    }
    most = std::max(most, sum * micro_batches());
  }
  return most;
}

namespace {

/// Whether every stage can keep to the limit at once.
bool can_fit(const StageSums& sums, std::int64_t limit) {
  const Split smallest = smallest_split(sums);
  for (int k = 0; k < sums.stages(); ++k) {
    const models::StageRange& stage = smallest[at(k)];
    if (sums.bytes(stage.first, stage.last, k) > static_cast<double>(limit)) return false;
  }
  return true;
}

}  // namespace

std::optional<Split> fastest_split(const StageSums& sums, std::optional<std::int64_t> limit) {
  if (limit && !can_fit(sums, *limit)) return std::nullopt;
  return models::best_partition(sums.layers(), sums.stages(), [&](int first, int last, int stage) {
    const bool fits = !limit || sums.bytes(first, last, stage) <= static_cast<double>(*limit);
    return fits ? sums.load(first, last, stage) : infinity;
  });
}

std::optional<Split> shortest_split(const StageSums& sums, std::optional<std::int64_t> limit) {
  const std::optional<Split> fastest = fastest_split(sums, limit);
  constexpr double most_cells = 4e6;  // of a table with 16 bytes each
  const double cells = static_cast<double>(sums.stages()) * sums.layers() * sums.layers();
  if (!fastest || cells > most_cells) return fastest;
  const StageTable table(sums, limit);
  double least = 0;
  for (int k = 0; k < sums.stages(); ++k) {
    least = std::max(least, sums.load((*fastest)[at(k)].first, (*fastest)[at(k)].last, k));
  }
  Split best = *fastest;
  double shortest = infinity;
  for (const double bound : table.bounds(least)) {
    const double filling = (sums.micro_batches() - 1) * bound;
    if (filling >= shortest) break;
    auto [split, passages] = table.quickest(bound);
    if (filling + passages >= shortest) continue;
    shortest = filling + passages;
    best = std::move(split);
  }
  return best;
}

Split smallest_split(const StageSums& sums) {
  return models::best_partition(sums.layers(), sums.stages(), [&](int first, int last, int stage) {
    return sums.bytes(first, last, stage);
  });
}

}  // namespace unlatch::sim
