// Qi et al. 2024 (arXiv 2405.15362): repeat the block, reorder both ends, squeeze. Times are in
// tasks of equal length and only decide the order.
#include "schedules/repeated_block.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

namespace unlatch {
namespace {

constexpr int period = 6;  ///< F, I and W of two stages

/// What a rank does in one unit of time.
struct Cell {
  enum class Kind : std::uint8_t { idle, forward, input, weight } kind = Kind::idle;
  Stage stage;
  int micro_batch = 0;
  bool is(Kind other) const { return kind == other; }
  /// F and I keep their place when W is placed anew.
  bool fixed() const { return is(Kind::forward) || is(Kind::input); }
};
using Kind = Cell::Kind;

/// What a rank has done so far: the W of each of its two stages that wait, and the tapes it holds.
class Progress {
 public:
  explicit Progress(std::array<Stage, 2> stages) : stages_(stages) {}

  /// Tapes while the cell runs.
  int run(const Cell& cell) {
    const int which = cell.stage == stages_[0] ? 0 : 1;
    if (cell.is(Kind::forward)) ++tapes_;
    const int held = tapes_;
    if (cell.is(Kind::input)) ++inputs_[which];
    if (cell.is(Kind::weight)) {
      ++weights_[which];
      --tapes_;
    }
    return held;
  }
  /// The W to run next, an idle cell if none waits.
  Cell waiting_weight() const {
    for (const int which : {0, 1}) {
      if (weights_[which] < inputs_[which]) return {Kind::weight, stages_[which], weights_[which]};
    }
    return {};
  }

 private:
  std::array<Stage, 2> stages_;  ///< the one nearer to the loss, whose W goes first, and the other
  std::array<int, 2> inputs_{}, weights_{};
  int tapes_ = 0;
};

/// Puts W into free cells from `from` on, wherever it was before; returns the most tapes held, or
/// more than any limit if a W found no place.
int place_weights(std::vector<Cell>& cells, Progress progress, int from) {
  int most = 0;
  for (int t = 0; t < static_cast<int>(cells.size()); ++t) {
    if (t >= from && !cells[t].fixed()) cells[t] = progress.waiting_weight();
    most = std::max(most, progress.run(cells[t]));
  }
  const bool all_placed = progress.waiting_weight().is(Kind::idle);
  return all_placed ? most : std::numeric_limits<int>::max();
}

/// Who does what when. Tasks only ever move to earlier cells that are free and where their input
/// is there, so that the order of the cells stays one that can run.
class Timetable {
 public:
  Timetable(const std::vector<BlockStart>& blocks, int micro_batches, int tape_limit)
      : ranks_(static_cast<int>(blocks.size())),
        micro_batches_(micro_batches),
        tape_limit_(tape_limit),
        cells_(ranks_),
        forward_at_(2 * ranks_, std::vector<int>(micro_batches)),
        input_at_(forward_at_) {
    const int reach = 12 * ranks_ + 2 * period;  // of one block, with room for waiting W
    for (int r = 0; r < ranks_; ++r) {
      cells_[r].resize(period * micro_batches + reach);
      const Stage down{r}, up = up_of(r);
      for (int i = 0; i < micro_batches; ++i) {
        const int at = period * i;
        put(r, at + blocks[r].forward_down, {Kind::forward, down, i});
        put(r, at + blocks[r].forward_up, {Kind::forward, up, i});
        put(r, at + blocks[r].input_up, {Kind::input, up, i});
        put(r, at + blocks[r].input_down, {Kind::input, down, i});
      }
      place_weights(cells_[r], start_of(r), 0);
    }
  }

  /// Moves F and I that start before `end`, and the W of such I, to the front.
  void move_to_front(int end) {
    for (const auto& [time, r, cell] : tasks([&](const Cell&task, int time) {
           return (task.is(Kind::weight) ? input_at(task) : time) < end;
         })) {
      std::vector<Cell>& cells = cells_[r];
      int earliest = ready(cell);
      if (cell.is(Kind::forward)) earliest = std::max(earliest, room_for_tape(r, time));
      const auto free = std::find_if(cells.begin() + std::min(earliest, time), cells.begin() + time,
                                     [](const Cell& c) { return c.is(Kind::idle); });
      if (free == cells.begin() + time) continue;
      cells[time] = {};
      put(r, static_cast<int>(free - cells.begin()), cell);
    }
  }

  /// Moves F and I after the last forward of rank 0's first stage up, past W where memory allows.
  void move_tail_up() {
    const int tail = forward_at_[0].back();
    const int begin = std::max(0, tail - period);  // no input of the tail is older
    std::vector<Progress> progress;
    for (int r = 0; r < ranks_; ++r) {
      progress.push_back(start_of(r));
      for (int t = 0; t < begin; ++t) progress.back().run(cells_[r][t]);
    }
    for (const auto& [time, r, cell] : tasks([&](const Cell&task, int time) {
           return task.fixed() && time >= tail &&
                  !(task.is(Kind::forward) && task.stage == Stage{0} &&
                    task.micro_batch + 1 == micro_batches_);
         })) {
      for (int t = std::max(begin, ready(cell)); t < time; ++t) {
        if (cells_[r][t].fixed()) continue;
        std::vector<Cell> trial(cells_[r].begin() + begin, cells_[r].end());
        trial[time - begin] = {};
        trial[t - begin] = cell;
        if (place_weights(trial, progress[r], t - begin) > tape_limit_) continue;
        std::copy(trial.begin(), trial.end(), cells_[r].begin() + begin);
        note(t, cell);
        break;
      }
    }
  }

  /// Starts every task as early as the order allows; returns the longest span of a rank.
  int squeeze() {
    std::vector<int> clock(ranks_, 0), start(ranks_, -1);
    for (const auto& [time, r, cell] : tasks([](const Cell&, int) { return true; })) {
      const int begin = std::max(clock[r], ready(cell));
      if (start[r] < 0) start[r] = begin;
      note(begin, cell);
      clock[r] = begin + 1;
    }
    int longest = 0;
    for (int r = 0; r < ranks_; ++r) longest = std::max(longest, clock[r] - start[r]);
    return longest;
  }

  std::vector<RankOrder> orders() const {
    std::vector<RankOrder> all;
    for (int r = 0; r < ranks_; ++r) {
      RankOrder order(micro_batches_);
      for (const Cell& cell : cells_[r]) {
        if (cell.is(Kind::forward)) order.forward(cell.stage);
        if (cell.is(Kind::input)) order.backward_input(cell.stage);
        if (cell.is(Kind::weight)) order.backward_weight(cell.stage);
      }
      all.push_back(std::move(order));
    }
    return all;
  }

 private:
  Stage up_of(int r) const { return {2 * ranks_ - 1 - r}; }
  Progress start_of(int r) const { return Progress({up_of(r), Stage{r}}); }
  int input_at(const Cell& cell) const { return input_at_[cell.stage.value][cell.micro_batch]; }

  void note(int time, const Cell& cell) {
    if (cell.is(Kind::forward)) forward_at_[cell.stage.value][cell.micro_batch] = time;
    if (cell.is(Kind::input)) input_at_[cell.stage.value][cell.micro_batch] = time;
  }
  void put(int r, int time, const Cell& cell) {
    assert(cells_[r][time].is(Kind::idle));  // the offsets of a block never meet
    cells_[r][time] = cell;
    note(time, cell);
  }

  /// The first time at which all inputs of the task are there.
  int ready(const Cell& cell) const {
    const int k = cell.stage.value, i = cell.micro_batch;
    if (cell.is(Kind::weight)) return input_at_[k][i] + 1;
    if (cell.is(Kind::forward)) return k == 0 ? 0 : forward_at_[k - 1][i] + 1;
    const bool last = k == 2 * ranks_ - 1;
    return std::max(forward_at_[k][i], last ? 0 : input_at_[k + 1][i]) + 1;
  }

  /// From when on one more tape fits until `end`.
  int room_for_tape(int r, int end) const {
    Progress progress = start_of(r);
    int from = 0;
    for (int t = 0; t < end; ++t) {
      if (progress.run(cells_[r][t]) + 1 > tape_limit_) from = t + 1;
    }
    return from;
  }

  /// (time, rank, task) of all tasks that `wanted(task, time)`, by time and then rank.
  template <class Wanted>
  std::vector<std::tuple<int, int, Cell>> tasks(const Wanted& wanted) const {
    std::vector<std::tuple<int, int, Cell>> all;
    for (int t = 0; t < static_cast<int>(cells_.front().size()); ++t) {
      for (int r = 0; r < ranks_; ++r) {
        const Cell& cell = cells_[r][t];
        if (!cell.is(Kind::idle) && wanted(cell, t)) all.emplace_back(t, r, cell);
      }
    }
    return all;
  }

  int ranks_;
  int micro_batches_;
  int tape_limit_;
  std::vector<std::vector<Cell>> cells_;                 ///< by rank and time
  std::vector<std::vector<int>> forward_at_, input_at_;  ///< by stage and micro-batch
};

}  // namespace

std::vector<RankOrder> repeat_block(const std::vector<BlockStart>& blocks, int micro_batches,
                                    int tape_limit) {
  int shortest = std::numeric_limits<int>::max();
  std::vector<RankOrder> best;
  // The warm-up ends where rank 0 first runs I of stage 0; for some P a unit or two beside it wins.
  for (const int beside : {0, -1, 2}) {
    Timetable table(blocks, micro_batches, tape_limit);
    table.move_to_front(blocks.front().input_down + beside);
    table.move_tail_up();
    const int span = table.squeeze();
    if (span >= shortest) continue;
    shortest = span;
    best = table.orders();
  }
  return best;
}

Schedule v_schedule(std::string specification, const Shape& shape,
                    const std::vector<RankOrder>& orders) {
  Schedule schedule(std::move(specification), shape);
  place_in_snake(schedule);
  repeat_every_batch(schedule, orders);
  return schedule;
}

}  // namespace unlatch
