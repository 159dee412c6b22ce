// draw: fills a grid of cells lane by lane and prints it.
#include "traces/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "schedules/error.h"

namespace unlatch {

namespace {

struct Cell {
  enum class Kind : std::uint8_t { idle, start, going_on } kind = Kind::idle;
  bool more = false;  ///< other tasks start in this column too
  TaskId task;
};

using Row = std::vector<Cell>;

bool is_drawn(const Lane& lane) {
  return lane.engine == Engine::compute || lane.engine == Engine::recompute;
}

std::string row_name(const Lane& lane) {
  return fmt::format("rank {}{}", lane.rank.value, lane.engine == Engine::recompute ? " R" : "");
}

std::string cell_text(const TaskGraph& graph, const Cell& cell, bool with_stage) {
  if (cell.kind == Cell::Kind::idle) return ".";
  if (cell.kind == Cell::Kind::going_on) return "-";
  std::string text = label(graph.task(cell.task));
  if (!with_stage) text.erase(0, text.find_first_not_of("0123456789"));
  if (cell.more) text.push_back('+');
  return text;
}

void mark(Row& row, TaskId id, const Span& span, nanoseconds unit) {
  const auto first = static_cast<std::size_t>(span.start / unit);
  const auto last = static_cast<std::size_t>((span.end - nanoseconds(1)) / unit);
  if (row[first].kind == Cell::Kind::start) {
    row[first].more = true;
  } else {
    row[first] = {Cell::Kind::start, false, id};
  }
  for (std::size_t column = first + 1; column <= last; ++column) {
    if (row[column].kind == Cell::Kind::idle) row[column].kind = Cell::Kind::going_on;
  }
}

std::vector<Row> fill(const TaskGraph& graph, const Timeline& timeline, nanoseconds unit,
                      std::size_t columns) {
  std::vector<Row> rows(graph.lanes().size());
  for (std::size_t lane = 0; lane < rows.size(); ++lane) {
    if (is_drawn(graph.lanes()[lane])) rows[lane].resize(columns);
  }
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    const bool visible = !is_hidden(task.op) && timeline[id].length() > nanoseconds(0);
    if (visible && is_drawn(graph.lane(task))) mark(rows[task.lane], id, timeline[id], unit);
  }
  return rows;
}

bool several_stages_a_rank(const TaskGraph& graph) {
  std::vector<int> stages(static_cast<std::size_t>(graph.ranks()), 0);
  for (const Stage k : up_to<Stage>(graph.shape().stages)) ++stages[graph.rank_of(k).value];
  return std::any_of(stages.begin(), stages.end(), [](int count) { return count > 1; });
}

}  // namespace

std::string draw(const TaskGraph& graph, const Timeline& timeline, nanoseconds unit) {
  require(unit > nanoseconds(0), "draw: a column must last at least 1 ns, not {} ns", unit.count());
  const std::int64_t columns = (makespan(timeline) + unit - nanoseconds(1)) / unit;
  const auto drawn = std::count_if(graph.lanes().begin(), graph.lanes().end(), is_drawn);
  constexpr std::int64_t most_cells = 1'000'000;
  require(columns * drawn <= most_cells,
          "draw: {} rows of {} columns are too many to draw (at most {} cells); take a smaller "
          "shape or a longer unit than {} ns",
          drawn, columns, most_cells, unit.count());
  const bool with_stage = several_stages_a_rank(graph);
  const std::vector<Row> rows = fill(graph, timeline, unit, static_cast<std::size_t>(columns));

  std::size_t name_width = 0;
  std::size_t cell_width = 1;
  for (std::size_t lane = 0; lane < rows.size(); ++lane) {
    if (!is_drawn(graph.lanes()[lane])) continue;
    name_width = std::max(name_width, row_name(graph.lanes()[lane]).size());
    for (const Cell& cell : rows[lane]) {
      cell_width = std::max(cell_width, cell_text(graph, cell, with_stage).size());
    }
  }
  std::string text;
  for (std::size_t lane = 0; lane < rows.size(); ++lane) {
    if (!is_drawn(graph.lanes()[lane])) continue;
    fmt::format_to(std::back_inserter(text), "{:<{}}", row_name(graph.lanes()[lane]), name_width);
    for (const Cell& cell : rows[lane]) {
      fmt::format_to(std::back_inserter(text), "  {:<{}}", cell_text(graph, cell, with_stage),
                     cell_width);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text.push_back('\n');
  }
  return text;
}

}  // namespace unlatch
