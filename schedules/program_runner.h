// ProgramRunner: runs the programs of all ranks beside each other, each as far as it goes, and so
// finds an order of all tasks and what each of them waits for.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "schedules/large_pages.h"
#include "schedules/program_facts.h"
#include "schedules/tasks_in_flight.h"

namespace unlatch {

/// Takes tasks as they run, so that their slots can be used again.
class TaskTaker {
 public:
  virtual ~TaskTaker() = default;
  /// The task in that slot has run; what it waited for. Its flags may still change.
  virtual void take(std::int32_t slot, std::span<const Edge> waited_for) = 0;
  /// The task that was in that slot last may not change any more.
  virtual bool is_done_with(std::int32_t slot) const = 0;
  /// Calls visit(slot) for all that it still looks at.
  virtual void each_in_use(const std::function<void(std::int32_t)>& visit) const = 0;
};

/// One pass over the programs: tasks get their edges (the mathematics), versions and flags as they
/// come. For one use. A task is known by its slot.
class ProgramRunner {
 public:
  /// `margin`: see TasksInFlight. Tasks, edges and first_edge hold everything, in the order of the
  /// tasks, unless a taker takes them: then slots are used again, and a taker that is done with a
  /// task too early is a window that is too small.
  ProgramRunner(const Schedule& schedule, const ProgramFacts& facts, int margin,
                TaskTaker* taker = nullptr);

  /// Runs everything; false when the programs break a rule or wait for each other for ever.
  bool run();
  /// Does not look at the order of the programs: all have run, rank by rank, whatever they wait
  /// for.
  void run_regardless();

  /// By slot. An edge of task t lies in edges[first_edge[t]..first_edge[t+1]).
  LongArray<Task> tasks;
  LongArray<std::uint32_t> first_edge{0};
  LongArray<Edge> edges;
  /// How many tasks each program has run: ranks, then barriers, then the AR of each model stage.
  std::vector<std::int64_t> progress() const;
  /// By stage, where a server serves: its updates in order.
  const std::vector<std::vector<std::int32_t>>& updates() const& { return updates_; }

 private:
  using Item = ProgramItem;
  using Slot = std::int32_t;
  using Kind = TasksInFlight::Kind;
  static constexpr Slot none = TasksInFlight::none;

  /// Something that the next task of a stage waits for: an AR, or an update of another copy.
  struct Owed {
    bool all_reduce = false;
    Stage stage;
    int number = 0;
  };
  /// What a program has come to.
  struct Walk {
    std::optional<ItemRuns::Cursor> cursor;  ///< ranks only
    std::optional<ItemRuns::Cursor> scout;   ///< runs ahead where an AR takes gradients
    Rank rank;
    bool has_recompute_lane = false;
    std::array<std::uint16_t, 2> lanes{};  ///< compute, recompute
    bool fits = false;                     ///< that task: it has been looked at before
    bool at_task = false;                  ///< the cursor stands on a task that has not run
    std::int64_t progress = 0;
    std::optional<Item> phase;  ///< an after() that the next task waits for
    int barriers = 0;           ///< passed, the pending one included
    int pending_barrier = none;
    Slot newest = none;
    std::array<Slot, 2> lane_end{none, none};  ///< compute, recompute
    std::vector<Edge> newest_row;              ///< where R may stand beside F
    int batches_begun = 0;
    int next_waiter = none;  ///< another program that waits for the same
  };
  /// An old version of a stage's weights.
  struct KeptVersion {
    Slot update = none;  ///< that overwrites it
    Slot reader = none;  ///< the newest that read it afterwards
  };
  /// What is known of a stage where its program is.
  struct StageState {
    bool is_first = false;  ///< of its copy
    bool is_last = false;
    int updates = 0;
    bool has_gradient = false;    ///< that no update has applied
    Slot newest_gradient = none;  ///< since the last update
    int gradients = 0;            ///< that have run, where there are copies
    int scouted = 0;              ///< gradients that the scout has seen
    /// The number of a gradient, and the update before which it is the last.
    std::deque<std::pair<int, Item>> last_gradients;
    int last_gradient = -1;            ///< highest micro-batch, counted within its copy
    std::deque<KeptVersion> versions;  ///< from first_version on
    int first_version = 0;             ///< that a late reader may still ask for
    std::vector<Owed> owed;            ///< by its next task
    int waiters = none;                ///< for its next update
  };
  /// The end of a lock-step iteration that some ranks have reached.
  struct Meeting {
    int reached = 0;
    std::vector<std::pair<Rank, Slot>> before;
  };
  /// The tasks that join the copies of one stage.
  struct AllReduces {
    int done = 0;
    std::array<Slot, 4> newest{};  ///< by number mod 4: nobody asks for older ones
    struct Join {
      Task task;
      std::vector<std::pair<Rank, Slot>> inputs;
    };
    std::deque<Join> waiting;  ///< from number `done` on
    int waiters = none;
    Slot first = none;  ///< where all are, when running regardless
  };

  // Walking (program_runner.cpp).
  void start();
  bool step_to_task(Walk& walk);
  void run_rank(int p);
  void run_barriers();
  bool lags(int p, int batch);
  Slot begin_task(const Walk& walk, const Item& item);
  bool fits(const Walk& walk, const Item& item);
  bool has_inputs(const Item& item);
  void end_task(Slot slot);
  Slot new_slot();
  void collect_slots();
  void mark_slots(const std::function<void(Slot)>& mark) const;
  /// For a change of a task that ran some time ago.
  Task& changed(Slot slot) {
    if (taker_ != nullptr && taker_->is_done_with(slot)) throw TasksInFlight::Forgotten{};
    return tasks[slot];
  }
  void record(int p, const Item& item, Slot slot);
  void record_gradient(const Task& task);
  int number_in_copy(MicroBatch i) const;
  void put(const Item& item, Slot slot);
  void wake(int first);
  int barrier_program() const { return shape_.ranks(); }

  // Whether all is there (program_end.cpp).
  bool ended_well();
  bool is_whole(Stage k) const;
  bool has_partners(Stage k) const;
  bool applies_gradients() const;

  // What a task waits for (program_edges.cpp). False: for something that has not run.
  bool gather(int p, const Item& item);
  bool gather_phase(int p, const Item& phase);
  void gather_recompute(const Walk& walk, const Item& item);
  bool gather_push(int p, const Item& item);
  bool gather_data(int p, const Item& item);
  bool gather_gradient(int p, const Item& item);
  bool need(int p, std::int32_t& entry, EdgeKind kind) {
    if (entry >= 0) add_edge(entry, kind);
    return entry >= 0 || wait_for(p, entry);
  }
  bool wait_for(int p, std::int32_t& entry);
  bool need_from(int p, const Item& item, Kind kind, Stage k, MicroBatch i, EdgeKind edge);
  bool wait(int p, int& waiters);
  std::uint16_t lane_of(int p, const Item& item) const {
    return walks_[p].lanes[item.engine == Engine::recompute ? 1 : 0];
  }
  bool has_pop(Op op, Stage k, MicroBatch i) const;
  Slot barrier_slot(int number) const;
  void add_edge(Slot from, EdgeKind kind) { edges.emplace_back(TaskId{from}, kind); }

  // Versions and flags (program_versions.cpp).
  void read_version(const Item& item, Task& task);
  void record_version(Slot slot);
  void forget_versions(StageState& state);
  void flag_replayed();

  // Copies of a model (program_copies.cpp).
  const Agreement& agreement() const { return schedule_.learning().agreement; }
  bool gather_copies(int p, const Item& item);
  bool gather_delayed(int p, const Item& item);
  bool gather_served(int p, const Item& item);
  bool need_sums(int p, const Item& update);
  bool need_all_reduce(int p, Stage k, int number);
  bool need_update(int p, Stage k, int number);
  void join(int p, const Item& update, int number, Slot input);
  void give_gradient(int p, Stage k, Slot slot);
  void record_copies(int p, Slot slot);
  void give_weights(int p, Slot slot);
  void serve(const Task& task, Slot slot);
  void run_all_reduces(Stage model_stage);
  std::optional<std::pair<Stage, int>> served_before(Stage k, int number) const;
  void order_served();

  // Running regardless (program_regardless.cpp).
  void give_slots(Walk& walk);
  void give_slots(AllReduces& all);
  void add_joint_rows();

  const Schedule& schedule_;
  const ProgramFacts& facts_;
  const Shape shape_;
  TaskTaker* const taker_;
  std::vector<Slot> free_slots_;
  std::size_t row_ = 0;  ///< first edge of the task that is being looked at
  const bool served_;
  const bool recomputes_;  ///< somewhere
  const bool pops_;        ///< somewhere
  TasksInFlight in_flight_;
  std::vector<Walk> walks_;
  std::vector<StageState> stages_;
  std::vector<int> ready_;
  bool odd_ = false;              ///< a rule is broken
  bool regardless_ = false;       ///< everything counts as run
  std::deque<Meeting> meetings_;  ///< from the next barrier on
  int barriers_done_ = 0;
  Slot newest_barrier_ = none;
  Slot first_barrier_ = none;  ///< when running regardless
  int barrier_waiters_ = none;
  std::vector<AllReduces> all_reduces_;  ///< by model stage
  std::vector<std::vector<Slot>> updates_;
  /// By stage and update, where an order is given.
  std::vector<std::vector<std::optional<std::pair<Stage, int>>>> served_before_;
};

}  // namespace unlatch
