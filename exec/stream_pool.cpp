#include "exec/stream_pool.h"

#include <algorithm>

namespace unlatch::exec {

int StreamBlock::last_task() const {
  int last = -1;
  for (const User& user : users) last = std::max(last, user.task.value);
  return last;
}

void StreamPool::add(const StreamBlock& block) {
  meter_.allocate(block.size);
  ++sizes_[block.size].blocks;
}

void StreamPool::remove(const StreamBlock& block) {
  meter_.release(block.size);
  --sizes_[block.size].blocks;
}

void StreamPool::hold(const StreamBlock& block, std::optional<TaskId> task) {
  meter_.take(block.size, block.asked, task);
  Size& size = sizes_[block.size];
  size.most = std::max(size.most, ++size.held);
  if (!task) size.stays = size.held;
}

void StreamPool::drop(StreamBlock& block, std::optional<TaskId> task) {
  meter_.drop(block.size, block.asked, task);
  Size& size = sizes_[block.size];
  --size.held;
  if (!task) size.stays = size.held;
  size.free.insert(std::ranges::upper_bound(size.free, block.number, {}, &StreamBlock::number),
                   &block);
}

bool StreamPool::may_run_ahead(std::size_t size) const {
  const std::size_t stays = meter_.before_run();
  return meter_.in_pool() + size <= stays + run_ahead * (meter_.peak_with(size) - stays);
}

bool StreamPool::begins_to_run_ahead(TaskId task) {
  if (!updated_ || updated_ == task) return false;
  updated_.reset();
  const std::size_t before = peak_;
  peak_ = meter_.peak_with(0);
  return peak_ > before;
}

std::vector<std::size_t> StreamPool::lacking() const {
  std::vector<std::size_t> sizes;
  for (const auto& [bytes, size] : sizes_) {
    const std::size_t wanted = size.stays + run_ahead * (size.most - size.stays);
    if (wanted > size.blocks) sizes.insert(sizes.end(), wanted - size.blocks, bytes);
  }
  return sizes;
}

}  // namespace unlatch::exec
