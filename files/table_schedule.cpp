#include "files/table_schedule.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "files/placement.h"
#include "schedules/error.h"

namespace unlatch::files {
namespace {

std::size_t size_of(const ActionTable& table) {
  std::size_t actions = 0;
  for (const ActionRow& row : table.rows) actions += row.size();
  return actions;
}

/// How often each number occurs among the computing actions. Numbers from `limit` on are left out:
/// fewer actions than that exist, so a complete table cannot reach them.
template <class Number>
std::vector<std::size_t> occurrences(const ActionTable& table, std::size_t limit, Number number) {
  std::vector<std::size_t> counts;
  for (const ActionRow& row : table.rows) {
    for (const Action& action : row) {
      if (!is_compute(action.kind)) continue;
      const auto value = static_cast<std::size_t>(number(action));
      if (value >= limit) continue;
      if (value >= counts.size()) counts.resize(value + 1);
      ++counts[value];
    }
  }
  return counts;
}

/// One more than the largest number that occurs at least half as often as usual.
int size_of(const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> present;
  std::ranges::copy_if(counts, std::back_inserter(present), [](std::size_t n) { return n > 0; });
  if (present.empty()) return 1;
  const auto middle = present.begin() + std::ssize(present) / 2;
  std::ranges::nth_element(present, middle);
  int size = 1;
  for (std::size_t n = 0; n < counts.size(); ++n) {
    if (2 * counts[n] >= *middle) size = static_cast<int>(n) + 1;
  }
  return size;
}

Op op_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::backward:
      return Op::backward;
    case ActionKind::backward_input:
      return Op::backward_input;
    case ActionKind::backward_weight:
      return Op::backward_weight;
    default:
      return Op::forward;
  }
}

/// The tasks of a row. An F and the B that overlaps it in one cell are a block.
void add_row(const ActionRow& row, Rank rank, Schedule& schedule) {
  for (std::size_t j = 0; j < row.size(); ++j) {
    const Action& action = row[j];
    if (!is_compute(action.kind)) continue;
    const bool ends_cell = j + 1 == row.size() || row[j + 1].overlap != Overlap::next;
    Program::Item item;
    item.op = op_of(action.kind);
    item.stage = action.stage;
    item.micro_batch = action.micro_batch;
    item.column = action.column;
    item.ends_block = action.overlap == Overlap::next && item.op == Op::backward && ends_cell &&
                      row[j - 1].overlap == Overlap::first &&
                      row[j - 1].kind == ActionKind::forward;
    schedule.on(rank).append(item);
  }
}

bool completes_gradient(Op op) { return op == Op::backward || op == Op::backward_weight; }

/// The same programs with what follows from them: the output of an F in a block is handed on at the
/// end of the block, and every stage updates after its last gradient.
class Completion {
 public:
  Completion(const Schedule& bare, Updates updates)
      : bare_(bare), shape_(bare.shape()), updates_(updates), gradients_(shape_.stages) {
    for (const Rank r : up_to<Rank>(shape_.ranks())) note_hand_overs(r);
  }

  Schedule complete() {
    Schedule schedule(bare_.specification(), shape_);
    for (const Stage k : up_to<Stage>(shape_.stages)) schedule.place(k, bare_.rank_of(k));
    for (const Rank r : up_to<Rank>(shape_.ranks())) {
      const auto& items = bare_.programs()[r.value].items();
      for (std::size_t j = 0; j < items.size(); ++j) add(items, j, schedule.on(r));
      schedule.on(r).next_step();
    }
    return schedule;
  }

 private:
  using Items = std::vector<Program::Item>;
  static std::pair<int, int> key(Stage k, MicroBatch i) { return {k.value, i.value}; }

  bool is_known(Stage k) const { return k.value >= 0 && k.value < shape_.stages; }

  void note_hand_overs(Rank rank) {
    const Items& items = bare_.programs()[rank.value].items();
    for (std::size_t j = 1; j < items.size(); ++j) {
      const Program::Item& forward = items[j - 1];
      const Stage next = forward.stage + 1;
      if (!items[j].ends_block || !is_known(forward.stage) || !is_known(next)) continue;
      if (bare_.rank_of(next) != rank) handed_over_.insert(key(forward.stage, forward.micro_batch));
    }
  }

  void add(const Items& items, std::size_t j, Program& program) {
    const Program::Item& item = items[j];
    if (item.op == Op::forward && handed_over_.contains(key(item.stage - 1, item.micro_batch))) {
      program.pop_forward(item.stage, item.micro_batch).at_column(item.column);
    }
    program.append(item);
    if (item.ends_block) {
      const Program::Item& forward = items[j - 1];
      if (handed_over_.contains(key(forward.stage, forward.micro_batch))) {
        program.push_forward(forward.stage, forward.micro_batch).at_column(item.column);
      }
    }
    if (updates_ == Updates::none || !completes_gradient(item.op)) return;
    if (++gradients_[item.stage.value] < shape_.micro_batches) return;
    program.update(item.stage, {shape_.micro_batches - 1}).at_column(item.column);
  }

  const Schedule& bare_;
  const Shape& shape_;
  Updates updates_;
  std::vector<int> gradients_;
  std::set<std::pair<int, int>> handed_over_;
};

ActionKind kind_of(Op op) {
  switch (op) {
    case Op::backward:
      return ActionKind::backward;
    case Op::backward_input:
      return ActionKind::backward_input;
    case Op::backward_weight:
      return ActionKind::backward_weight;
    default:
      return ActionKind::forward;
  }
}

void require_word(const Program::Item& item, const std::string& name) {
  require(item.kind == Program::Item::Kind::task,
          "{}: a CSV file holds tasks alone and cannot say barriers or phases; use a JSON file",
          name);
  require(item.weights == Weights::current && item.version == newest,
          "{}: {} reads older weights, which a CSV file cannot say; use a JSON file", name,
          label(item.op, item.stage, item.micro_batch));
  require(item.op == Op::forward || kind_of(item.op) != ActionKind::forward,
          "{}: {} has no word in a CSV file, which knows F, B, I and W; use a JSON file", name,
          label(item.op, item.stage, item.micro_batch));
}

/// U and hand-overs need no word.
bool is_implied(const std::vector<Program::Item>& items, std::size_t j, std::vector<int>& updates,
                const std::string& name) {
  const Program::Item& item = items[j];
  if (is_hand_over(items, j)) return true;
  if (item.kind != Program::Item::Kind::task || item.op != Op::update) return false;
  require(++updates[item.stage.value] == 1,
          "{}: stage {} updates several times in a batch, which a CSV file cannot say; use a JSON "
          "file",
          name, item.stage.value);
  return true;
}

void require_one_batch(const Schedule& schedule) {
  const Shape& shape = schedule.shape();
  const std::string& name = schedule.specification();
  require(shape.batches == 1,
          "{}: a CSV file holds one batch, not {}; write --batches 1, or a JSON file", name,
          shape.batches);
  require(shape.copies == 1,
          "{}: its {} copies of the model have stages of the same name on different ranks, which a "
          "CSV file cannot say; use a JSON file (or a V-shaped schedule such as dualpipev)",
          name, shape.copies);
  Learning plain;
  plain.loss_scale = schedule.learning().loss_scale;
  plain.leaves_gradients = schedule.learning().leaves_gradients;
  require(schedule.learning() == plain,
          "{}: it changes gradients, weights or inputs in a way that a CSV file cannot say; use a "
          "JSON file",
          name);
}

}  // namespace

Shape shape_of(const ActionTable& table) {
  const std::size_t limit = size_of(table) + 1;
  Shape shape;
  shape.stages =
      size_of(occurrences(table, limit, [](const Action& action) { return action.stage.value; }));
  shape.micro_batches = size_of(
      occurrences(table, limit, [](const Action& action) { return action.micro_batch.value; }));
  const int ranks = std::max(1, static_cast<int>(table.rows.size()));
  shape.chunks = std::max(1, shape.stages / ranks);
  return shape;
}

std::vector<Violation> shape_problems(const ActionTable& table, const Shape& shape) {
  const auto rows = static_cast<int>(table.rows.size());
  if (rows == 0) return {{"shape", {}, -1, -1, "the file is empty; write one line a rank"}};
  if (shape.stages % rows != 0) {
    return {{"shape",
             {},
             -1,
             -1,
             fmt::format("{} stages (0..{}) on {} rows: every row is a rank, and every rank must "
                         "hold as many stages",
                         shape.stages, shape.stages - 1, rows)}};
  }
  const std::int64_t forwards = std::int64_t{shape.stages} * shape.micro_batches;
  if (forwards <= static_cast<std::int64_t>(size_of(table))) return {};
  return {{"missing",
           {},
           -1,
           -1,
           fmt::format("stages 0..{} and micro-batches 0..{} need {} forwards alone, but the file "
                       "holds {} actions; a stage or micro-batch has the wrong number",
                       shape.stages - 1, shape.micro_batches - 1, forwards, size_of(table))}};
}

Schedule schedule_of(const ActionTable& table, const Shape& shape, std::string name,
                     Updates updates) {
  Schedule schedule(std::move(name), shape);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    add_row(table.rows[r], {static_cast<std::int32_t>(r)}, schedule);
  }
  place_by_tasks(schedule);
  return Completion(schedule, updates).complete();
}

ActionTable table_of(const Schedule& schedule) {
  require_one_batch(schedule);
  std::vector<int> updates(schedule.shape().stages);
  ActionTable table;
  for (const Program& program : schedule.programs()) {
    ActionRow& row = table.rows.emplace_back();
    const auto& items = program.items();
    for (std::size_t j = 0; j < items.size(); ++j) {
      if (is_implied(items, j, updates, schedule.specification())) continue;
      require_word(items[j], schedule.specification());
      add_action(items[j], row);
    }
  }
  return table;
}

bool is_hand_over(const std::vector<Program::Item>& items, std::size_t j) {
  const Program::Item& item = items[j];
  if (item.kind != Program::Item::Kind::task || item.capacity != unbounded) return false;
  if (item.op == Op::push_forward) return j > 0 && items[j - 1].ends_block;
  return item.op == Op::pop_forward && j + 1 < items.size() && items[j + 1].op == Op::forward &&
         items[j + 1].stage == item.stage && items[j + 1].micro_batch == item.micro_batch;
}

void add_action(const Program::Item& item, ActionRow& row) {
  Action action;
  action.kind = kind_of(item.op);
  action.stage = item.stage;
  action.micro_batch = item.micro_batch;
  action.column = row.empty() ? 0 : row.back().column + 1;
  if (item.ends_block && !row.empty()) {
    row.back().overlap = Overlap::first;
    action.overlap = Overlap::next;
    action.column = row.back().column;
  }
  row.push_back(action);
}

}  // namespace unlatch::files
