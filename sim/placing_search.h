// Placing search: where the ranks of one candidate sit, and which split of layers goes with it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/placement_search.h"
#include "sim/trial.h"

namespace unlatch::sim {

/// Without a seating each of the placings given gets its best split. With one, all placements that
/// differ are simulated where their number times the tasks of a simulation keeps to
/// SearchLimits::tasks; else those that swaps lead to, from the placings given and from
/// filling_placements(). Each of these has the split whose slowest stage is fastest on its devices;
/// as many simulations again go to better splits for the best of them, until none can be better.
class PlacingSearch {
 public:
  /// What is given to it must outlive it.
  PlacingSearch(const Candidate& candidate, const TaskGraph& tasks, const SearchLimits& limits,
                Finding& finding);

  /// Throws Error where no placing has costs, with Finding::refused set to what to call that.
  void run();

 private:
  /// What is known about a placing.
  struct Seat {
    Placing placing;
    std::unique_ptr<Trial> trial;
    double floor = 0;         ///< ns that no split is faster than
    SplitAnswer answer = {};  ///< the best so far; of none while nothing is simulated
    bool is_done = false;     ///< no split is better than that, or than the best seat
  };

  void try_given();
  void try_seating();
  void try_all(const std::vector<Devices>& all);
  void try_swaps();
  void improve_splits();
  void improve_splits(int splits_each, std::int64_t& left);
  /// Null where a placing has no costs.
  Seat* seat_on(Placing placing);
  Seat* seat_on(const Devices& devices);
  void simulate(Seat& seat);
  SplitScore score(const Devices& devices);
  void descend_from(const Devices& devices, std::int64_t most);
  void keep_if_best(Seat& seat);
  bool may_be_better(const Seat& seat) const;
  std::vector<Seat*> seats_by_score() const;
  std::int64_t affordable() const;
  std::int64_t simulated() const;
  void report();

  const Candidate& candidate_;
  const SearchLimits& limits_;
  Finding& finding_;
  Graphs graphs_;
  std::optional<Likeness> likeness_;  ///< of the seating's sites
  std::vector<std::unique_ptr<Seat>> seats_;
  std::map<Devices, Seat*> seat_of_;  ///< by the representative of its devices
  std::int64_t ends_at_ = 0;          ///< simulations of a descent
  Seat* best_ = nullptr;
  std::string no_costs_;  ///< why the first placing without costs has none
};

}  // namespace unlatch::sim
