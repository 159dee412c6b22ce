#include "sim/split_search.h"

#include <algorithm>
#include <map>
#include <utility>

namespace unlatch::sim {
namespace {

/// First layers of the stages behind the first one.
using Cuts = std::vector<int>;

Split split_of(const Cuts& cuts, int layers) {
  Split split;
  int first = 0;
  for (const int cut : cuts) {
    split.push_back({first, cut - 1, 0});
    first = cut;
  }
  split.push_back({first, layers - 1, 0});
  return split;
}

Cuts cuts_of(const Split& split) {
  Cuts cuts;
  for (std::size_t k = 1; k < split.size(); ++k) cuts.push_back(split[k].first);
  return cuts;
}

bool is_split(const Cuts& cuts, int layers) {
  int before = 0;
  for (const int cut : cuts) {
    if (cut <= before) return false;
    before = cut;
  }
  return before < layers;
}

/// The number of splits, or any number above `most`.
double number_of_splits(int layers, int stages, double most) {
  double number = 1;  // choose stages-1 of the layers-1 places to cut
  for (int k = 1; k < stages && number <= most; ++k) {
    number = number * (layers - stages + k) / k;
  }
  return number;
}

/// The next choice of cuts in lexicographic order; false after the last.
bool advance(Cuts& cuts, int layers) {
  const int count = static_cast<int>(cuts.size());
  for (int c = count - 1; c >= 0; --c) {
    if (cuts[static_cast<std::size_t>(c)] >= layers - (count - c)) continue;
    int place = ++cuts[static_cast<std::size_t>(c)];
    for (int after = c + 1; after < count; ++after) cuts[static_cast<std::size_t>(after)] = ++place;
    return true;
  }
  return false;
}

std::vector<Cuts> neighbours(const Cuts& cuts, int layers) {
  std::vector<Cuts> all;
  const auto add = [&](Cuts moved) {
    if (is_split(moved, layers)) all.push_back(std::move(moved));
  };
  for (std::size_t c = 0; c < cuts.size(); ++c) {
    for (const int by : {-1, 1, -2, 2}) {
      Cuts moved = cuts;
      moved[c] += by;
      add(std::move(moved));
    }
    for (const int by : {-1, 1}) {
      if (c + 1 == cuts.size()) break;
      Cuts moved = cuts;
      moved[c] += by;
      moved[c + 1] += by;
      add(std::move(moved));
    }
  }
  return all;
}

/// Simulated splits, each once, and the best of them.
class Tried {
 public:
  Tried(int layers, const std::function<SplitScore(const Split&)>& simulate)
      : layers_(layers), simulate_(simulate) {}

  const SplitScore& score(const Cuts& cuts) {
    const auto [entry, is_new] = scores_.try_emplace(cuts);
    if (is_new) entry->second = simulate_(split_of(cuts, layers_));
    return entry->second;
  }
  bool knows(const Cuts& cuts) const { return scores_.contains(cuts); }
  int count() const { return static_cast<int>(scores_.size()); }
  /// The earliest cuts of equally good ones.
  SplitAnswer answer() const {
    auto best = scores_.begin();
    for (auto entry = scores_.begin(); entry != scores_.end(); ++entry) {
      if (entry->second < best->second) best = entry;
    }
    return {.split = split_of(best->first, layers_), .score = best->second, .simulated = count()};
  }

 private:
  int layers_;
  const std::function<SplitScore(const Split&)>& simulate_;
  std::map<Cuts, SplitScore> scores_;
};

/// Goes to the best neighbour while it is better.
SplitScore descend(Cuts cuts, int layers, int most, Tried& tried) {
  SplitScore score = tried.score(cuts);
  while (tried.count() < most) {
    Cuts best = cuts;
    SplitScore best_score = score;
    for (Cuts& moved : neighbours(cuts, layers)) {
      const SplitScore& moved_score = tried.score(moved);
      if (moved_score < best_score) {
        best_score = moved_score;
        best = std::move(moved);
      }
    }
    if (best_score == score) return score;
    cuts = std::move(best);
    score = best_score;
  }
  return score;
}

/// The first split that fits, of those that are fastest when each stage keeps to ever less of its
/// room. Where a rank has several stages, the room for each is not that for all.
std::optional<Split> first_that_fits(const StageSums& sums, Tried& tried) {
  for (int percent = 95; percent > 0; percent -= 5) {
    const auto split = fastest_split(sums, percent / 100.0);
    if (!split || tried.score(cuts_of(*split)).excess_bytes == 0) return split;
  }
  return std::nullopt;
}

void search_nearby(const StageSums& sums, const SplitLimits& limits,
                   const std::optional<Split>& fastest, Tried& tried) {
  const auto descend_from = [&](const Split& split) {
    return descend(cuts_of(split), sums.layers(), limits.most, tried);
  };
  bool fits = false;
  for (const std::optional<Split>& from : {fastest, shortest_split(sums)}) {
    if (!from || tried.score(cuts_of(*from)).excess_bytes > 0) continue;
    descend_from(*from);
    fits = true;
  }
  if (fits) return;
  const auto fitting = sums.room(0) ? first_that_fits(sums, tried) : std::nullopt;
  descend_from(fitting ? *fitting : smallest_split(sums));
}

/// A split and what it cannot be faster than.
struct Listed {
  double floor = 0;
  Cuts cuts;
};

std::vector<Listed> list_all(const StageSums& sums, bool floor_holds) {
  std::vector<Listed> all;
  Cuts cuts;
  for (int k = 1; k < sums.stages(); ++k) cuts.push_back(k);
  do {
    const double floor = floor_holds ? sums.floor(split_of(cuts, sums.layers())) : 0;
    all.push_back({floor, cuts});
  } while (advance(cuts, sums.layers()));
  std::ranges::stable_sort(all, {}, &Listed::floor);
  return all;
}

/// True when all that could be better were simulated.
bool search_all(const StageSums& sums, const SplitLimits& limits, Tried& tried) {
  constexpr int most_listed = 20'000;
  if (number_of_splits(sums.layers(), sums.stages(), most_listed) > most_listed) return false;
  SplitScore best = tried.answer().score;
  for (const Listed& listed : list_all(sums, limits.floor_holds)) {
    if (best.excess_bytes == 0 && listed.floor > best.period_ns) return true;
    if (limits.bound && listed.floor > *limits.bound) return true;
    if (tried.count() >= limits.most && !tried.knows(listed.cuts)) return false;
    best = std::min(best, tried.score(listed.cuts));
  }
  return true;
}

}  // namespace

SplitAnswer best_split(const StageSums& sums, const SplitLimits& limits,
                       const std::function<SplitScore(const Split&)>& simulate) {
  const std::optional<Split> fastest = fastest_split(sums);
  Tried tried(sums.layers(), simulate);
  search_nearby(sums, limits, fastest, tried);
  const bool all = search_all(sums, limits, tried);
  SplitAnswer answer = tried.answer();
  answer.all = all;
  answer.sums = fastest;
  return answer;
}

}  // namespace unlatch::sim
