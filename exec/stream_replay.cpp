#include "exec/stream_replay.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "schedules/error.h"

namespace unlatch::exec {

/// The shortest period of the middle half, by its longest border (Knuth, Morris and Pratt 1977).
int tasks_that_repeat(const TaskGraph& graph) {
  const auto kind = [&](std::size_t i) {
    const Task& task = graph.task(TaskId{graph.size() / 4 + static_cast<int>(i)});
    return std::tuple(task.op, task.stage, task.lane, task.flags);
  };
  const auto n = static_cast<std::size_t>(graph.size() / 2);
  std::vector<std::size_t> border(n + 1, 0);  // of each beginning of the half
  for (std::size_t i = 1; i < n; ++i) {
    std::size_t length = border[i];
    while (length > 0 && kind(i) != kind(length)) length = border[length];
    border[i + 1] = kind(i) == kind(length) ? length + 1 : 0;
  }
  const std::size_t period = n - border[n];
  const bool comes_again = n > 0 && 2 * period <= n;
  return comes_again ? static_cast<int>(period) : std::max(1, graph.size() / graph.shape().batches);
}

StreamReplay::~StreamReplay() {
  for (const Piece& piece : pieces_) {
    if (piece.graph >= 0) device_.destroy_graph(piece.graph);
  }
}

void StreamReplay::add(std::span<const Word> words, std::function<void()> put) {
  words_.push_back(words.size());  // so that no two calls read like one
  words_.insert(words_.end(), words.begin(), words.end());
  work_.push_back(std::move(put));
}

void StreamReplay::end_piece() {
  if (work_.empty()) return;
  const int number = piece();
  Piece& piece = remembered();
  if (piece.words.empty()) {
    piece.words = words_;
    put_all();
    ++counts_.put;
  } else if (piece.graph < 0) {
    piece.graph = capture();
    device_.launch_graph(piece.graph, first_mark_, last_mark_);
    ++counts_.captured;
  } else {
    device_.launch_graph(piece.graph, first_mark_, last_mark_);
    ++counts_.launched;
  }
  device_.note_piece(number);
  words_.clear();
  work_.clear();
  first_mark_ = last_mark_ = -1;
}

/// A piece goes to the device as soon as it is whole, so that the device has it while the host
/// waits for the piece before.
void StreamReplay::record(int mark, LaneId lane) {
  piece_of_mark_[mark] = piece();
  if (first_mark_ < 0) first_mark_ = mark;
  last_mark_ = mark;
  add(words_of(&StreamReplay::record, mark, lane), [=, this] { device_.record(mark, lane); });
  const bool ends = mark % 2 == 1;
  if (ends && ++ended_ % piece_tasks_ == 0) end_piece();
}

void StreamReplay::wait(LaneId lane, int mark) {
  add(words_of(&StreamReplay::wait, mark, lane), [=, this] { device_.wait(lane, mark); });
}

/// What a mark inside a graph says is known for certain once the whole piece is over.
nanoseconds StreamReplay::reached(int mark) {
  const int number = piece_of_mark_.at(mark);
  if (number == piece()) end_piece();
  try {
    device_.wait_for_piece(number);
  } catch (const RunError& error) {
    throw RunError(fmt::format("in the tasks of a CUDA graph from there on: {}", error.what()));
  }
  return device_.reached(mark);
}

/// The piece with the words at hand, or a new one without words.
StreamReplay::Piece& StreamReplay::remembered() {
  const auto found = std::ranges::find(pieces_, words_, &Piece::words);
  if (found != pieces_.end()) {
    pieces_.splice(pieces_.begin(), pieces_, found);
    return pieces_.front();
  }
  if (pieces_.size() == most_remembered) {
    if (pieces_.back().graph >= 0) device_.destroy_graph(pieces_.back().graph);
    pieces_.pop_back();
  }
  return pieces_.emplace_front();
}

void StreamReplay::put_all() {
  device_.fork_lanes();
  for (const auto& put : work_) put();
  device_.join_lanes();
}

int StreamReplay::capture() {
  device_.begin_capture();
  try {
    put_all();
  } catch (...) {
    device_.give_up_capture();
    throw;
  }
  return device_.end_capture();
}

}  // namespace unlatch::exec
