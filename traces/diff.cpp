// diff: pairs the tasks of two runs by label and adds them up.
#include "traces/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "schedules/error.h"

namespace unlatch {

namespace {

using Labels = std::unordered_map<std::string_view, const TimedTask*>;

struct Pair {
  const TimedTask* predicted;
  const TimedTask* measured;
};

Labels by_label(const TaskList& list, const std::set<std::string>& left_out) {
  Labels labels;
  labels.reserve(list.tasks.size());
  for (const TimedTask& task : list.tasks) {
    if (left_out.contains(task.kind)) continue;
    const auto [place, added] = labels.emplace(task.label, &task);
    require(added,
            "{} holds the task {} twice (on rank {} and rank {}); a comparison needs one time for "
            "each task",
            list.source, task.label, place->second->rank, task.rank);
  }
  return labels;
}

void require_all(const TaskList& from, const Labels& other, const TaskList& other_list,
                 const std::set<std::string>& left_out) {
  constexpr int most_named = 5;
  int missing = 0;
  std::string names;
  for (const TimedTask& task : from.tasks) {
    if (left_out.contains(task.kind) || other.contains(task.label)) continue;
    if (missing < most_named) names += fmt::format("{}{}", missing > 0 ? ", " : "", task.label);
    ++missing;
  }
  require(
      missing == 0,
      "{} and {} are not runs of the same tasks: the second lacks {}{} ({} of {}); compare runs "
      "of the same schedule, stages, micro-batches and batches",
      from.source, other_list.source, names, missing > most_named ? ", .." : "", missing,
      from.tasks.size());
}

std::set<std::string> transfer_kinds(const TaskList& list) {
  std::set<std::string> kinds;
  for (const TimedTask& task : list.tasks) {
    if (is_transfer_kind(task.kind)) kinds.insert(task.kind);
  }
  return kinds;
}

/// Kinds of messages that one side has and the other has not at all.
std::set<std::string> one_sided_transfers(const TaskList& predicted, const TaskList& measured) {
  const std::set<std::string> a = transfer_kinds(predicted);
  const std::set<std::string> b = transfer_kinds(measured);
  std::set<std::string> kinds;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(),
                                std::inserter(kinds, kinds.end()));
  return kinds;
}

nanoseconds median(std::vector<nanoseconds> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  if (times.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(times.begin(), middle)) / 2;
}

/// The tasks of one group, both sides.
struct Group {
  std::vector<nanoseconds> predicted;
  std::vector<nanoseconds> measured;

  void add(const Pair& pair) {
    predicted.push_back(pair.predicted->span.length());
    measured.push_back(pair.measured->span.length());
  }

  Difference difference(Statistic statistic) const {
    const auto total = [&](const std::vector<nanoseconds>& times) {
      if (statistic == Statistic::median) return median(times);
      nanoseconds sum{0};
      for (const nanoseconds time : times) sum += time;
      return sum;
    };
    return {total(predicted), total(measured), static_cast<int>(predicted.size())};
  }
};

/// F, B, I, W, R, U first, then the others by name.
struct KindOrder {
  bool operator()(const std::string& a, const std::string& b) const {
    return std::pair(place(a), a) < std::pair(place(b), b);
  }
  static std::size_t place(const std::string& kind) {
    return is_compute_kind(kind) ? std::string_view("FBIWRU").find(kind[0]) : 6;
  }
};

nanoseconds extent(const TaskList& list) {
  if (list.tasks.empty()) return nanoseconds(0);
  nanoseconds first = list.tasks.front().span.start;
  nanoseconds last = list.tasks.front().span.end;
  for (const TimedTask& task : list.tasks) {
    first = std::min(first, task.span.start);
    last = std::max(last, task.span.end);
  }
  return last - first;
}

/// How far apart a group is; `all` is the predicted time of all groups of its sort.
double deviation(const Difference& difference, nanoseconds all) {
  if (const auto ratio = difference.ratio()) return std::abs(*ratio - 1);
  if (difference.measured == nanoseconds(0)) return 0;
  if (all == nanoseconds(0)) return std::numeric_limits<double>::max();
  return static_cast<double>(difference.measured.count()) / static_cast<double>(all.count());
}

void find_worst(Diff& result) {
  const auto consider = [&](const Difference& difference, nanoseconds all, std::string what) {
    const double apart = deviation(difference, all);
    if (apart <= result.worst_deviation) return;
    result.worst_deviation = apart;
    result.worst = std::move(what);
  };
  nanoseconds kinds{0};
  nanoseconds ranks{0};
  for (const KindDifference& kind : result.by_kind) kinds += kind.predicted;
  for (const RankDifference& rank : result.by_rank) ranks += rank.predicted;
  for (const KindDifference& kind : result.by_kind) {
    consider(kind, kinds, fmt::format("kind {}", kind.kind));
  }
  for (const RankDifference& rank : result.by_rank) {
    consider(rank, ranks, fmt::format("rank {}", rank.rank));
  }
  consider(result.makespan, nanoseconds(0), "makespan");
}

void find_culprit(Diff& result) {
  double slowest = 1;
  for (const RankDifference& rank : result.by_rank) {
    const double ratio = rank.ratio().value_or(0);
    if (ratio <= slowest) continue;
    slowest = ratio;
    result.culprit_rank = rank.rank;
  }
}

}  // namespace

std::optional<double> Difference::ratio() const {
  if (predicted == nanoseconds(0)) return std::nullopt;
  return static_cast<double>(measured.count()) / static_cast<double>(predicted.count());
}

Diff diff(const TaskList& predicted, const TaskList& measured, Statistic statistic) {
  require(!predicted.tasks.empty(), "{} holds no tasks, so that nothing could be compared",
          predicted.source);
  const std::set<std::string> left_out = one_sided_transfers(predicted, measured);
  const Labels predicted_tasks = by_label(predicted, left_out);
  const Labels measured_tasks = by_label(measured, left_out);
  require_all(predicted, measured_tasks, measured, left_out);
  require_all(measured, predicted_tasks, predicted, left_out);

  std::map<std::string, Group, KindOrder> kinds;
  std::map<int, Group> ranks;
  for (const TimedTask& task : predicted.tasks) {
    if (left_out.contains(task.kind)) continue;
    const Pair pair{&task, measured_tasks.at(task.label)};
    kinds[task.kind].add(pair);
    if (is_compute_kind(task.kind)) ranks[pair.measured->rank].add(pair);
  }
  Diff result;
  for (const auto& [kind, group] : kinds) {
    result.by_kind.push_back({group.difference(statistic), kind});
  }
  for (const auto& [rank, group] : ranks) {
    result.by_rank.push_back({group.difference(statistic), rank});
  }
  result.makespan = {extent(predicted), extent(measured), static_cast<int>(predicted.tasks.size())};
  for (const std::string& kind : left_out) {
    result.notes.push_back(
        fmt::format("{} tasks are left out: only one of the two runs has them", kind));
  }
  find_culprit(result);
  find_worst(result);
  return result;
}

}  // namespace unlatch
