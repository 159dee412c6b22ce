// ReadAheadFeed: inputs made by a thread of its own before they are asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/stage_module.h"

namespace unlatch::exec {

/// Gives what another feed gives, of the micro-batches behind the first one asked for, in their
/// order and at most `most` inputs ahead, again once half of them are taken. Whoever asks for one
/// that has not been begun makes it himself, so that no order of asking waits for another. What
/// making an input throws is thrown where it is asked for.
class ReadAheadFeed : public Feed {
 public:
  /// `feed` must outlive it.
  ReadAheadFeed(Feed& feed, int micro_batches, int most);
  ~ReadAheadFeed() override;
  ReadAheadFeed(const ReadAheadFeed&) = delete;
  ReadAheadFeed& operator=(const ReadAheadFeed&) = delete;

  Tensor input(MicroBatch i) override;
  Tensor target(MicroBatch i) override { return feed_.target(i); }
  Share share(MicroBatch i) const override { return feed_.share(i); }

  /// How often an input was not ready when it was asked for.
  int waits() const;

 private:
  enum class State : std::uint8_t { open, making, made, taken };
  struct Slot {
    State state = State::open;
    Tensor input;
    std::exception_ptr failure;
  };

  void work();
  void make(Slot& slot, MicroBatch i);

  Feed& feed_;
  int most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;  ///< by micro-batch
  int ready_ = 0;            ///< made and not taken
  int waits_ = 0;
  int begin_ = -1;  ///< the first one asked for; -1: none yet
  bool stopped_ = false;
  std::thread worker_;  ///< the last member: it uses all others
};

}  // namespace unlatch::exec
