// Where the actions of a table stand, and how a fault at one of them is reported.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "files/task_index.h"
#include "schedules/violation.h"

namespace unlatch::files {

/// Where an action stands; row -1: nowhere.
struct Place {
  std::int32_t row = -1;
  std::int32_t column = -1;
  std::int32_t position = -1;  ///< among the actions of its row
};

/// The first place of every action with a stage and micro-batch of the shape.
inline TaskIndex<Place> first_places(const ActionTable& table, const Shape& shape) {
  TaskIndex<Place> places(shape.stages, shape.micro_batches, {});
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const ActionRow& row = table.rows[r];
    for (std::size_t j = 0; j < row.size(); ++j) {
      if (!places.covers(row[j])) continue;
      Place& place = places[row[j]];
      if (place.row >= 0) continue;
      place = {static_cast<std::int32_t>(r), row[j].column, static_cast<std::int32_t>(j)};
    }
  }
  return places;
}

inline Violation violation_at(std::string rule, const Action& action, int row,
                              std::string_view why) {
  return {std::move(rule),
          {label(action)},
          row,
          action.column,
          fmt::format("{} at row {}, column {}: {}", label(action), row, action.column, why)};
}

}  // namespace unlatch::files
