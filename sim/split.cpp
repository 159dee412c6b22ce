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
  explicit StageTable(const StageSums& sums) : layers_(sums.layers()), stages_(sums.stages()) {
    cells_.resize(at(stages_) * at(layers_) * at(layers_));
    for (int k = 0; k < stages_; ++k) {
      for (int first = 0; first < layers_; ++first) {
        for (int last = first; last < layers_; ++last) {
          if (!sums.fits(first, last, k)) continue;
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

StageSums::StageSums(const std::vector<LayerFacts>& kinds, PipelineFacts pipeline)
    : pipeline_(std::move(pipeline)),
      tape_(sums_of(kinds.front().tape_bytes)),
      half_tape_(sums_of(kinds.front().half_tape_bytes)),
      weight_(sums_of(kinds.front().weight_bytes)),
      state_(sums_of(kinds.front().state_bytes)),
      output_(kinds.front().output_bytes),
      input_(kinds.front().input_bytes) {
  for (const LayerFacts& layers : kinds) {
    std::vector<double> work;
    for (std::size_t j = 0; j < layers.forward.size(); ++j) {
      work.push_back(layers.forward[j] + layers.backward[j]);
    }
    times_.push_back({sums_of(work), sums_of(layers.update), sums_of(layers.recompute),
                      layers.handover_in, layers.handover_out});
  }
}

double StageSums::work_on(int kind, int first, int last, int stage) const {
  const Times& times = times_[at(kind)];
  double work = between(times.work, first, last);
  work += pipeline_.stages[at(stage)].recomputed * between(times.recompute, first, last);
  if (first > 0) work += times.handover_in[at(first)];
  if (last + 1 < layers()) work += times.handover_out[at(last)];
  return work;
}

double StageSums::work(int first, int last, int stage) const {
  double most = 0;
  for (const int kind : pipeline_.stages[at(stage)].kinds) {
    most = std::max(most, work_on(kind, first, last, stage));
  }
  return most;
}

double StageSums::update(int first, int last, int stage) const {
  double most = 0;
  for (const int kind : pipeline_.stages[at(stage)].kinds) {
    most = std::max(most, between(times_[at(kind)].update, first, last));
  }
  return most;
}

double StageSums::message(int last, int stage) const {
  if (last + 1 == layers()) return 0;
  const Way& way = pipeline_.stages[at(stage)].to_next;
  return way.latency_ns + way.ns_per_byte * output_[at(last)];
}

double StageSums::load(int first, int last, int stage) const {
  const double updates = update(first, last, stage) / micro_batches();
  return std::max(work(first, last, stage) + updates, message(last, stage));
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

std::optional<std::int64_t> StageSums::room(int stage) const {
  return pipeline_.stages[at(stage)].room;
}

bool StageSums::fits(int first, int last, int stage, double share) const {
  const auto most = room(stage);
  return !most || bytes(first, last, stage) <= share * static_cast<double>(*most);
}

namespace {

constexpr int tasks_of_work = 4;  // F, R, I, W

}  // namespace

double StageSums::message_floor(int last, int stage) const {
  return (message(last, stage) - 1) * micro_batches();
}

double StageSums::floor(const Split& split) const {
  double most = 0;
  for (std::size_t r = 0; r < pipeline_.ranks.size(); ++r) {
    const int kind = pipeline_.rank_kinds.empty() ? 0 : pipeline_.rank_kinds[r];
    double sum = 0;
    for (const int k : pipeline_.ranks[r]) {
      sum += work_on(kind, split[at(k)].first, split[at(k)].last, k) - tasks_of_work;
    }
    most = std::max(most, sum * micro_batches());
  }
  for (int k = 0; k + 1 < stages(); ++k) {
    most = std::max(most, message_floor(split[at(k)].last, k));
  }
  return most;
}

double StageSums::least_floor() const {
  const auto floor_of = [&](int first, int last, int stage) {
    const double works = (work(first, last, stage) - tasks_of_work) * micro_batches();
    return std::max({0.0, works, message_floor(last, stage)});
  };
  double most = 0;
  const Split best = models::best_partition(layers(), stages(), floor_of);
  for (int k = 0; k < stages(); ++k) {
    most = std::max(most, floor_of(best[at(k)].first, best[at(k)].last, k));
  }
  return most;
}

namespace {

/// Whether every stage can keep to that share of its room at once.
bool can_fit(const StageSums& sums, double share) {
  const Split smallest = smallest_split(sums);
  for (int k = 0; k < sums.stages(); ++k) {
    if (!sums.fits(smallest[at(k)].first, smallest[at(k)].last, k, share)) return false;
  }
  return true;
}

}  // namespace

std::optional<Split> fastest_split(const StageSums& sums, double share) {
  if (!can_fit(sums, share)) return std::nullopt;
  return models::best_partition(sums.layers(), sums.stages(), [&](int first, int last, int stage) {
    return sums.fits(first, last, stage, share) ? sums.load(first, last, stage) : infinity;
  });
}

std::optional<Split> shortest_split(const StageSums& sums) {
  const std::optional<Split> fastest = fastest_split(sums);
  constexpr double most_cells = 4e6;  // of a table with 16 bytes each
  const double cells = static_cast<double>(sums.stages()) * sums.layers() * sums.layers();
  if (!fastest || cells > most_cells) return fastest;
  const StageTable table(sums);
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
    const auto room = sums.room(stage);
    const double bytes = sums.bytes(first, last, stage);
    return room ? bytes / std::max(1.0, static_cast<double>(*room)) : bytes;
  });
}

}  // namespace unlatch::sim
