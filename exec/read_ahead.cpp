#include "exec/read_ahead.h"

#include <utility>

namespace unlatch::exec {

ReadAheadFeed::ReadAheadFeed(Feed& feed, int micro_batches, int most)
    : feed_(feed),
      most_(most),
      slots_(static_cast<std::size_t>(micro_batches)),
      worker_([this] { work(); }) {}

ReadAheadFeed::~ReadAheadFeed() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void ReadAheadFeed::work() {
  std::size_t begin = 0;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || begin_ >= 0; });
    if (stopped_) return;
    begin = static_cast<std::size_t>(begin_);
  }
  for (std::size_t i = begin; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    {
      std::unique_lock lock(mutex_);
      if (ready_ >= most_) changed_.wait(lock, [&] { return stopped_ || ready_ <= most_ / 2; });
      if (stopped_) return;
      if (slot.state != State::open) continue;
      slot.state = State::making;
    }
    make(slot, MicroBatch{static_cast<int>(i)});
    {
      const std::lock_guard lock(mutex_);
      slot.state = State::made;
      ++ready_;
    }
    changed_.notify_all();
  }
}

/// Nobody else touches the slot.
void ReadAheadFeed::make(Slot& slot, MicroBatch i) {
  try {
    slot.input = feed_.input(i);
  } catch (...) {
    slot.failure = std::current_exception();
  }
}

Tensor ReadAheadFeed::input(MicroBatch i) {
  Slot& slot = slots_.at(static_cast<std::size_t>(i.value));
  std::unique_lock lock(mutex_);
  if (slot.state != State::made) ++waits_;
  if (slot.state == State::open || slot.state == State::taken) {
    slot.state = State::taken;
    const bool begins = begin_ < 0;
    if (begins) begin_ = i.value;
    lock.unlock();
    if (begins) changed_.notify_all();
    return feed_.input(i);
  }
  changed_.wait(lock, [&] { return slot.state == State::made; });
  slot.state = State::taken;
  --ready_;
  const std::exception_ptr failure = std::exchange(slot.failure, nullptr);
  Tensor input = std::exchange(slot.input, {});
  const bool wakes = ready_ <= most_ / 2;
  lock.unlock();
  if (wakes) changed_.notify_all();
  if (failure) std::rethrow_exception(failure);
  return input;
}

int ReadAheadFeed::waits() const {
  const std::lock_guard lock(mutex_);
  return waits_;
}

}  // namespace unlatch::exec
