// The CSV files of PyTorch's pipelining: one line a rank, one cell an action, no header.
//
// torch/distributed/pipelining/schedules.py, `_dump_csv` and `_load_csv`. Cells: [ blanks ]
// [ action ] [ blanks ]; an empty cell is an idle hint. Python's csv dialect: cells may stand in
// quotes, lines end in CRLF or LF.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "files/actions.h"
#include "schedules/violation.h"

namespace unlatch::files {

/// What the letters of a file meant when it was written.
enum class Dialect : std::uint8_t {
  now,           ///< B whole backward, I input gradient, W weight gradient
  intermediate,  ///< BW whole backward, B input gradient
  first,         ///< no I: B is the input gradient on stages that also have W
};

/// "now", "intermediate", "first".
std::string_view name(Dialect dialect);

struct PipelineCsv {
  ActionTable table;  ///< letters as now, whatever the dialect
  Dialect dialect = Dialect::now;
  std::vector<Violation> problems;  ///< unreadable cells, empty rows; rules "token", "row"
};

/// Reads all cells it can; what it cannot becomes a problem with row and column, from 0 (at most
/// a thousand). Throws Error for text that is no such file at all: UTF-16, or semicolons or tabs
/// between the cells. A byte order mark, quotes, blanks, trailing commas and one empty last line
/// are accepted.
PipelineCsv parse_pipeline_csv(std::string_view text);

/// The table as the dialect of now, with CRLF, no idle cells and no newline in a cell.
std::string pipeline_csv(const ActionTable& table);

}  // namespace unlatch::files
