#include "schedules/item_runs.h"

#include <algorithm>
#include <utility>

namespace unlatch {
namespace {

/// Parts of the longest block that is looked for; interleaved schedules of many ranks need some
/// hundreds.
constexpr std::size_t longest_block = 4096;

}  // namespace

std::vector<ProgramItem> ItemRuns::expanded() const {
  std::vector<ProgramItem> items;
  items.reserve(static_cast<std::size_t>(size_));
  for (Cursor cursor(*this); cursor.next();) items.push_back(cursor.item());
  return items;
}

std::size_t ItemRuns::memory_bytes() const {
  std::size_t bytes = symbols_.size() * 2 * sizeof(ProgramItem) + parts_.capacity() * sizeof(Part);
  for (const Body& block : blocks_) bytes += 2 * block.size() * sizeof(Part);
  return bytes;
}

void ItemRuns::fold(const ProgramItem& item) {
  const bool expected = is_expected(item);
  const ProgramItem relative = expected ? ProgramItem{} : base_.relative(item);
  base_.move_to(item);
  if (expected) return advance_round();
  give_up_round();
  parts_.push_back({symbol_of(relative), 1});
  while (merge_equal() || merge_square()) {
  }
  expect_next();
}

/// The symbol is compared in place: this is asked for every item of a schedule.
bool ItemRuns::is_expected(const ProgramItem& item) const {
  if (expected_ == no_symbol) return false;
  const ProgramItem& symbol = symbols_[expected_];
  const int version = item.version == newest ? no_version : item.version - base_.version;
  return symbol.op == item.op && symbol.stage == item.stage &&
         symbol.micro_batch.value == item.micro_batch.value - base_.micro_batch &&
         symbol.step == item.step - base_.step && symbol.column == item.column - base_.column &&
         symbol.version == version && symbol.capacity == item.capacity &&
         symbol.kind == item.kind && symbol.weights == item.weights &&
         symbol.engine == item.engine && symbol.beside_previous == item.beside_previous &&
         symbol.ends_block == item.ends_block;
}

/// Enters the blocks that the round is about to begin.
void ItemRuns::expect_next() {
  const Part last = parts_.back();
  expected_ = last.times < 2 || last.is_block() ? no_symbol : last.what;
  if (last.times < 2 || !last.is_block()) return;
  if (round_.empty()) round_.push_back({~last.what});
  while (true) {
    const Place& place = round_.back();
    expected_ = blocks_[place.block][place.part].what;
    if (expected_ >= 0) return;
    round_.push_back({~expected_});
  }
}

/// What ends is one more round of its part in the block around it; the outermost block begins anew.
void ItemRuns::advance_round() {
  if (round_.empty()) {
    ++parts_.back().times;
    return;
  }
  while (true) {
    Place& place = round_.back();
    const Body& body = blocks_[place.block];
    if (++place.done < body[place.part].times) break;
    place.done = 0;
    if (++place.part < body.size()) break;
    if (round_.size() == 1) {
      place.part = 0;
      ++parts_.back().times;
      break;
    }
    round_.pop_back();
  }
  expected_ = blocks_[round_.back().block][round_.back().part].what;
  if (expected_ < 0) expect_next();
}

/// The items of the round stand behind the last part as parts of their own.
void ItemRuns::give_up_round() {
  const Body begun = begun_round();
  parts_.insert(parts_.end(), begun.begin(), begun.end());
  round_.clear();
}

ItemRuns::Body ItemRuns::begun_round() const {
  Body begun;
  for (const Place& place : round_) {
    const Body& body = blocks_[place.block];
    begun.insert(begun.end(), body.begin(), body.begin() + static_cast<std::ptrdiff_t>(place.part));
    if (place.done > 0) begun.push_back({body[place.part].what, place.done});
  }
  return begun;
}

bool ItemRuns::merge_equal() {
  const std::size_t n = parts_.size();
  if (n < 2 || parts_[n - 2].what != parts_[n - 1].what) return false;
  parts_[n - 2].times += parts_[n - 1].times;
  parts_.pop_back();
  return true;
}

/// Twice the same parts are two rounds of a block.
bool ItemRuns::merge_square() {
  const auto end = parts_.end();
  const std::size_t longest = std::min(parts_.size() / 2, longest_block);
  for (std::size_t length = 2; length <= longest; ++length) {
    const auto middle = end - static_cast<std::ptrdiff_t>(length);
    if (*(end - 1) != *(middle - 1)) continue;
    const auto begin = middle - static_cast<std::ptrdiff_t>(length);
    if (!std::equal(begin, middle, middle)) continue;
    if (std::any_of(middle, end, [this](Part part) { return depth_of(part) >= most_depth; })) {
      return false;
    }
    const int block = block_of(Body(middle, end));
    parts_.erase(begin, end);
    parts_.push_back({~block, 2});
    return true;
  }
  return false;
}

int ItemRuns::symbol_of(const ProgramItem& relative) {
  const auto [entry, is_new] =
      symbol_index_.try_emplace(relative, static_cast<int>(symbols_.size()));
  if (is_new) symbols_.push_back(relative);
  return entry->second;
}

int ItemRuns::block_of(Body body) {
  const auto [entry, is_new] = block_index_.try_emplace(body, static_cast<int>(blocks_.size()));
  if (is_new) {
    int depth = 0;
    for (const Part part : body) depth = std::max(depth, depth_of(part));
    depths_.push_back(depth + 1);
    blocks_.push_back(std::move(body));
  }
  return entry->second;
}

}  // namespace unlatch
