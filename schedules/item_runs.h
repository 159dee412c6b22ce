// ItemRuns: the items of a program; what repeats, moved on by some micro-batches, is kept once.
//
// A loop of the schedule's text stays a loop in memory: found again from its items as they come, in
// the way of Noeth et al., "ScalaTrace", JPDC 2009. Memory grows with what differs, not with
// micro-batches or batches, and the items come out exactly as they went in.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "schedules/program_item.h"

namespace unlatch {

class ItemRuns {
 public:
  class Cursor;

  void append(const ProgramItem& item) { append() = item; }
  /// A new item, to be filled in place.
  ProgramItem& append() {
    if (newest_) fold(*newest_);
    ++size_;
    return newest_.emplace();
  }
  std::int64_t size() const { return size_; }
  /// The item appended last, which may still be changed; null while there is none.
  ProgramItem* last() { return newest_ ? &*newest_ : nullptr; }
  const ProgramItem* last() const { return newest_ ? &*newest_ : nullptr; }

  /// Calls visit(item, times) for every distinct item and how often it occurs. Micro-batch,
  /// version, step and column are relative to the item before, hence without meaning here.
  template <class Visit>
  void count(const Visit& visit) const {
    for (const Part part : parts_) count(part, 1, visit);
    for (const Part part : begun_round()) count(part, 1, visit);
    if (newest_) visit(*newest_, std::int64_t{1});
  }

  std::vector<ProgramItem> expanded() const;
  std::size_t memory_bytes() const;

 private:
  /// A symbol, or the block ~what, so many times in a row.
  struct Part {
    std::int32_t what = 0;
    std::int32_t times = 1;
    bool is_block() const { return what < 0; }
    friend auto operator<=>(const Part&, const Part&) = default;
  };
  using Body = std::vector<Part>;
  static constexpr int no_symbol = -1;
  static constexpr int most_depth = 6;  ///< of blocks in blocks
  /// Of a relative item that reads the newest weights.
  static constexpr int no_version = std::numeric_limits<int>::min();

  /// What the numbers of an item are relative to.
  struct Base {
    int step = 0;
    int micro_batch = 0;
    int column = 0;
    int version = 0;

    ProgramItem relative(const ProgramItem& item) const;
    void move_to(const ProgramItem& item);
  };

  /// How far the items have come in one more round of the last part.
  struct Place {
    int block = 0;
    std::size_t part = 0;
    std::int32_t done = 0;  ///< rounds of that part
  };

  void fold(const ProgramItem& item);
  bool is_expected(const ProgramItem& item) const;
  void expect_next();
  void advance_round();
  void give_up_round();
  Body begun_round() const;
  bool merge_equal();
  bool merge_square();
  int symbol_of(const ProgramItem& relative);
  int block_of(Body body);
  int depth_of(Part part) const { return part.is_block() ? depths_[~part.what] : 0; }

  template <class Visit>
  void count(Part part, std::int64_t rounds, const Visit& visit) const {
    rounds *= part.times;
    if (!part.is_block()) return visit(symbols_[part.what], rounds);
    for (const Part inner : blocks_[~part.what]) count(inner, rounds, visit);
  }

  std::optional<ProgramItem> newest_;  ///< not among the parts yet
  std::int64_t size_ = 0;
  Base base_;
  std::vector<ProgramItem> symbols_;  ///< relative items
  std::vector<Body> blocks_;
  std::vector<int> depths_;  ///< by block
  std::map<ProgramItem, int> symbol_index_;
  std::map<Body, int> block_index_;
  Body parts_;                ///< the items up to here
  std::vector<Place> round_;  ///< of the last part, outermost block first; empty for one symbol
  int expected_ = no_symbol;  ///< what continues the last part where that repeats
};

/// Reads the items in order. Appending to the runs ends its life.
class ItemRuns::Cursor {
 public:
  explicit Cursor(const ItemRuns& runs) : runs_(&runs), begun_round_(runs.begun_round()) {
    enter(runs.parts_, 1);
    item_.column = 0;
  }
  Cursor(Cursor&&) = default;
  Cursor& operator=(Cursor&&) = default;

  /// Moves to the next item, first to the first; false behind the last.
  bool next() {
    while (true) {
      Level& level = levels_[depth_];
      if (level.part == level.end) {
        if (--level.rounds > 0) {
          level.part = level.begin;
        } else if (depth_ == 0) {
          if (++parts_read_ > 1) return read_newest();
          enter(begun_round_, 1);
        } else {
          ++levels_[--depth_].part;
        }
      } else if (level.part->is_block()) {
        ++depth_;
        enter(runs_->blocks_[~level.part->what], level.part->times);
      } else {
        take(runs_->symbols_[level.part->what]);
        if (++level.done == level.part->times) {
          level.done = 0;
          ++level.part;
        }
        return true;
      }
    }
  }
  const ProgramItem& item() const { return item_; }

 private:
  struct Level {
    const Part* part = nullptr;
    const Part* begin = nullptr;
    const Part* end = nullptr;
    std::int32_t rounds = 0;  ///< of all parts
    std::int32_t done = 0;    ///< of one symbol
  };

  void enter(const Body& body, std::int32_t rounds) {
    levels_[depth_] = {body.data(), body.data(), body.data() + body.size(), rounds, 0};
  }
  /// The item before holds what the numbers of a symbol are relative to.
  void take(const ProgramItem& symbol) {
    const int micro_batch = item_.micro_batch.value + symbol.micro_batch.value;
    const int step = item_.step + symbol.step;
    const int column = item_.column + symbol.column;
    item_ = symbol;
    item_.micro_batch.value = micro_batch;
    item_.step = step;
    item_.column = column;
    if (symbol.version == no_version) {
      item_.version = newest;
    } else {
      item_.version = version_ += symbol.version;
    }
  }
  bool read_newest() {
    levels_[0].rounds = 1;  // stays at the end
    if (!runs_->newest_ || parts_read_ > 2) return false;
    item_ = *runs_->newest_;
    return true;
  }

  const ItemRuns* runs_;
  std::array<Level, most_depth + 1> levels_;
  int depth_ = 0;
  ProgramItem item_;
  int version_ = 0;     ///< the newest that an item asked for
  Body begun_round_;    ///< comes behind the parts, the newest item behind it
  int parts_read_ = 0;  ///< the parts, the round, the newest item
};

inline ProgramItem ItemRuns::Base::relative(const ProgramItem& item) const {
  ProgramItem relative = item;
  relative.micro_batch.value -= micro_batch;
  relative.step -= step;
  relative.column -= column;
  relative.version = item.version == newest ? no_version : item.version - version;
  return relative;
}

inline void ItemRuns::Base::move_to(const ProgramItem& item) {
  micro_batch = item.micro_batch.value;
  step = item.step;
  column = item.column;
  if (item.version != newest) version = item.version;
}

}  // namespace unlatch
