// Reading one task of a schedule table: `<stage><letter><micro-batch>`, as in 2F0.
#pragma once

#include <string_view>

#include "schedules/schedule.h"

namespace unlatch {

/// Appends the task of one cell to the program of its row; an empty cell adds nothing. Letters F,
/// B, I, W, R and U. Throws Error with the token, row and column (from 0) when it is none of them.
void add_cell(Program& program, std::string_view cell, int row, int column);

}  // namespace unlatch
