// From a table of actions to a Schedule and back.
#pragma once

#include <string>
#include <vector>

#include "files/actions.h"
#include "schedules/schedule.h"

namespace unlatch::files {

/// What a table implies: a rank a row, stages and micro-batches by what most of its actions name.
/// One that occurs less than half as often as usual is a slip, found later as out of range.
Shape shape_of(const ActionTable& table);

/// Why no Schedule can be made of a table of that shape; empty when it can. Rules "shape" (stages
/// are no multiple of the rows) and "missing" (far fewer tasks than stages x micro-batches need).
std::vector<Violation> shape_problems(const ActionTable& table, const Shape& shape);

/// Whether a Schedule gets the updates that no table holds; for them it must be valid.
enum class Updates { none, after_last_backward };

/// The F, B, I and W of a table as one batch; a stage is on the row that names it most often.
/// Tasks keep the columns of their cells. The other actions add nothing: the builder knows which
/// messages are needed.
Schedule schedule_of(const ActionTable& table, const Shape& shape, std::string name,
                     Updates updates);

/// The F, B, I and W of a schedule of one batch, U left out. Throws Error that names what a table
/// cannot say: copies of a model, recomputation, older weights, queues, barriers, several batches.
ActionTable table_of(const Schedule& schedule);

/// True for a queue place that only says that the output of a block leaves at its end.
bool is_hand_over(const std::vector<Program::Item>& items, std::size_t j);

/// Adds F, B, I or W behind a row; a B that ends a block joins the cell of the F before it.
void add_action(const Program::Item& item, ActionRow& row);

}  // namespace unlatch::files
