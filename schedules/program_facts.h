// ProgramFacts: what the programs of a schedule hold, counted without walking through them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedules/schedule.h"

namespace unlatch {

struct ProgramFacts {
  explicit ProgramFacts(const Schedule& schedule);

  std::int64_t count(Op op, Stage k) const { return counts[k.value][static_cast<int>(op)]; }
  bool has(Op op) const;
  /// The compute lane of a rank, or its recompute lane (-1: it has none).
  int lane(Rank rank, Engine engine) const {
    return lanes_of_rank[rank.value][engine == Engine::recompute ? 1 : 0];
  }
  std::uint16_t find_lane(const Lane& lane) const;

  std::int64_t tasks = 0;                            ///< of all ranks, without barriers
  std::vector<std::array<std::int64_t, 16>> counts;  ///< by stage and op
  bool stages_exist = true;                          ///< of all tasks
  int barriers = 0;                                  ///< most of a rank
  bool barriers_agree = true;                        ///< all ranks have as many
  int most_capacity = 0;                             ///< of the queues that have a limit
  std::vector<Lane> lanes;                           ///< sorted
  std::vector<std::array<int, 2>> lanes_of_rank;     ///< compute, recompute

 private:
  void note(const ProgramItem& item, std::int64_t times);
  void make_lanes(const Schedule& schedule, const std::vector<bool>& recomputes);
};

/// Copies of a model that meet in tasks of their own.
bool has_all_reduces(const Schedule& schedule);

}  // namespace unlatch
