#include "files/table_schedule.h"

#include <algorithm>
#include <iterator>
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

void add_row(const ActionRow& row, Rank rank, Schedule& schedule) {
  for (const Action& action : row) {
    if (!is_compute(action.kind)) continue;
    Program::Item item;
    item.op = op_of(action.kind);
    item.stage = action.stage;
    item.micro_batch = action.micro_batch;
    item.column = action.column;
    schedule.on(rank).append(item);
  }
}

bool completes_gradient(Op op) { return op == Op::backward || op == Op::backward_weight; }

/// The same programs with an update of each stage after its last gradient.
Schedule with_updates(const Schedule& bare) {
  const Shape& shape = bare.shape();
  Schedule schedule(bare.specification(), shape);
  std::vector<int> gradients(shape.stages);
  for (const Stage k : up_to<Stage>(shape.stages)) schedule.place(k, bare.rank_of(k));
  for (const Rank r : up_to<Rank>(shape.ranks())) {
    for (const Program::Item& item : bare.programs()[r.value].items()) {
      schedule.on(r).append(item);
      if (!completes_gradient(item.op) || ++gradients[item.stage.value] < shape.micro_batches) {
        continue;
      }
      schedule.on(r).update(item.stage, {shape.micro_batches - 1}).at_column(item.column);
    }
    schedule.on(r).next_step();
  }
  return schedule;
}

ActionKind kind_of(const Program::Item& item, const std::string& name) {
  require(item.kind == Program::Item::Kind::task,
          "{}: a CSV file holds tasks alone and cannot say barriers or phases; use a JSON file",
          name);
  require(item.weights == Weights::current && item.version == newest,
          "{}: {} reads older weights, which a CSV file cannot say; use a JSON file", name,
          label(item.op, item.stage, item.micro_batch));
  switch (item.op) {
    case Op::forward:
      return ActionKind::forward;
    case Op::backward:
      return ActionKind::backward;
    case Op::backward_input:
      return ActionKind::backward_input;
    case Op::backward_weight:
      return ActionKind::backward_weight;
    default:
      fail("{}: {} has no word in a CSV file, which knows F, B, I and W; use a JSON file", name,
           label(item.op, item.stage, item.micro_batch));
  }
}

/// The output of an F leaves when its overlapped block ends: what an OVERLAP_F_B cell says anyway.
bool is_message_of_a_block(const Program::Item& item) {
  return item.kind == Program::Item::Kind::task && item.capacity == unbounded &&
         (item.op == Op::push_forward || item.op == Op::pop_forward);
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
  require(schedule.gradient_scale() == 1.0,
          "{}: it scales gradients by {}, which a CSV file cannot say; use a JSON file", name,
          schedule.gradient_scale());
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
    return {{"shape", {}, -1, -1,
             fmt::format("{} stages (0..{}) on {} rows: every row is a rank, and every rank must "
                         "hold as many stages",
                         shape.stages, shape.stages - 1, rows)}};
  }
  const std::int64_t forwards = std::int64_t{shape.stages} * shape.micro_batches;
  if (forwards <= static_cast<std::int64_t>(size_of(table))) return {};
  return {{"missing", {}, -1, -1,
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
  return updates == Updates::none ? schedule : with_updates(schedule);
}

ActionTable table_of(const Schedule& schedule) {
  require_one_batch(schedule);
  std::vector<int> updates(schedule.shape().stages);
  ActionTable table;
  for (const Program& program : schedule.programs()) {
    ActionRow& row = table.rows.emplace_back();
    for (const Program::Item& item : program.items()) {
      if (item.kind == Program::Item::Kind::task && item.op == Op::update) {
        require(++updates[item.stage.value] == 1,
                "{}: stage {} updates several times in a batch, which a CSV file cannot say; use a "
                "JSON file",
                schedule.specification(), item.stage.value);
        continue;
      }
      if (is_message_of_a_block(item)) continue;
      Action action;
      action.kind = kind_of(item, schedule.specification());
      action.stage = item.stage;
      action.micro_batch = item.micro_batch;
      action.column = row.empty() ? 0 : row.back().column + 1;
      if (item.ends_block) {
        action.column = row.back().column;
        row.back().overlap = Overlap::first;
        action.overlap = Overlap::next;
      }
      row.push_back(action);
    }
  }
  return table;
}

}  // namespace unlatch::files
