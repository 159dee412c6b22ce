// StreamReplay: what is put on streams, collected piece by piece; a piece that comes again is
// launched as one graph.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "exec/streams.h"
#include "schedules/graph.h"

namespace unlatch::exec {

/// Streams whose work can be noted and launched again.
class GraphStreams : public Streams {
 public:
  /// Around what is put on the lanes: it starts behind all that was put, or launched, before.
  virtual void fork_lanes() = 0;
  virtual void join_lanes() = 0;
  /// Between the two everything is noted instead of run. Returns the number of the graph.
  virtual void begin_capture() = 0;
  virtual int end_capture() = 0;
  /// After a failure between the two.
  virtual void give_up_capture() noexcept = 0;
  /// `first` and `last` are marks set in what the graph stands for, by which profilers may name it;
  /// -1 where there is none.
  virtual void launch_graph(int graph, int first, int last) = 0;
  virtual void destroy_graph(int graph) noexcept = 0;
  /// Notes where all that was put, or launched, so far ends, under a number; one noted
  /// `pieces_noted` numbers before is forgotten.
  virtual void note_piece(int number) = 0;
  static constexpr int pieces_noted = 4;
  /// Blocks until that is over. Throws RunError.
  virtual void wait_for_piece(int number) = 0;
};

/// After so many tasks the kinds of tasks come again, in the middle of the run; one batch's tasks
/// where nothing does.
int tasks_that_repeat(const TaskGraph& graph);

/// Stands between the order of the tasks and the device's streams. Work is known by its words:
/// which call it is and every argument, addresses included. Two pieces with the same words do the
/// same. What comes for the first time is put on the lanes as it is; the second time it is captured
/// too, and from then on the graph is launched. For one host thread.
class StreamReplay : public Streams {
 public:
  using Word = std::uint64_t;
  template <class... A>
  static std::vector<Word> words_of(const A&... arguments) {
    std::vector<Word> words;
    (append(words, arguments), ...);
    return words;
  }
  /// Pieces remembered, the latest ones.
  static constexpr std::size_t most_remembered = 32;

  /// A piece has so many tasks; there must be two pieces' marks.
  StreamReplay(GraphStreams& device, int piece_tasks)
      : device_(device), piece_tasks_(piece_tasks) {}
  ~StreamReplay() override;
  StreamReplay(const StreamReplay&) = delete;
  StreamReplay& operator=(const StreamReplay&) = delete;

  /// `put` puts the work on its lane; it is called at the end of the piece, more than once or
  /// never.
  void add(std::span<const Word> words, std::function<void()> put);
  /// Hands what was added to the device.
  void end_piece();

  void record(int mark, LaneId lane) override;
  void wait(LaneId lane, int mark) override;
  /// A piece starts behind all those before it.
  bool is_behind(int mark) const override { return piece_of_mark_.at(mark) != piece(); }
  nanoseconds reached(int mark) override;

  struct Counts {
    int put = 0;
    int captured = 0;  ///< and launched for the first time
    int launched = 0;  ///< again
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Piece {
    std::vector<Word> words;
    int graph = -1;  ///< none yet
  };
  template <class T>
  static void append(std::vector<Word>& words, const T& argument) {
    static_assert(std::is_trivially_copyable_v<T>);  // and without padding
    const std::size_t at = words.size();
    words.resize(at + (sizeof(T) + sizeof(Word) - 1) / sizeof(Word), 0);
    if constexpr (!std::is_null_pointer_v<T>) std::memcpy(&words[at], &argument, sizeof(T));
  }
  /// Pieces ended; the number of the one under way.
  int piece() const { return counts_.put + counts_.captured + counts_.launched; }
  void put_all();
  int capture();
  Piece& remembered();

  GraphStreams& device_;
  int piece_tasks_;
  int ended_ = 0;                               ///< tasks
  std::unordered_map<int, int> piece_of_mark_;  ///< where it was set last
  int first_mark_ = -1, last_mark_ = -1;        ///< of the piece under way
  std::vector<Word> words_;
  std::vector<std::function<void()>> work_;
  std::list<Piece> pieces_;  ///< the latest first
  Counts counts_;
};

}  // namespace unlatch::exec
