// StreamMemory: device memory that is handed out again behind those who still use it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "exec/stream_order.h"
#include "exec/tensor.h"

namespace unlatch::exec {

/// Where the memory of a rank comes from.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// Null when there is no more.
  virtual std::byte* allocate(Rank rank, std::size_t bytes) = 0;
  virtual void release(Rank rank, std::byte* memory) noexcept = 0;
  /// Ranks on different devices do not read each other's memory.
  virtual int device_of(Rank) const { return 0; }
  /// Of the device of a rank, whoever uses it, in bytes.
  struct Room {
    std::size_t free = 0, total = 0;
  };
  /// Nothing where that is not known.
  virtual std::optional<Room> room(Rank) { return std::nullopt; }
};

/// A pool a rank. The host drops a tensor long before the device is done with it; the tensor's
/// memory then goes to the next taker at once, whose lane waits for the last task of every other
/// lane that used it. Memory that nobody has to wait for comes first, then memory to wait for. So
/// that there is enough of the first, a rank takes up to twice what it held at most during the run
/// (and no more than the limit allows): fresh memory where it would wait, until its first update;
/// from then on what is lacking at once behind an update. For one host thread, that of the order.
class StreamMemory {
 public:
  /// `limit` in bytes a rank, 0 for what the device has. Everything referred to must outlive it and
  /// its tensors.
  StreamMemory(const TaskGraph& graph, StreamOrder& order, DeviceMemory& memory,
               std::size_t limit = 0);
  ~StreamMemory();

  /// Uninitialised memory of the rank, for the task at hand if there is one, else for what its
  /// stages have before the first. Throws RunError with the need and what stands against it: the
  /// limit and what the rank has in use, or what each rank on the device holds and what is free.
  Tensor take(Rank rank, std::size_t bytes);
  /// Beside the pool, until the tensor is dropped; `what` says what for.
  Tensor reserve(Rank rank, std::size_t bytes, std::string_view what);
  /// The task at hand reads or writes it. Every use must be told; taking is one.
  void use(const Tensor& tensor);

  /// Of the rank that took it.
  int device_of(const Tensor& tensor) const;

  /// In bytes of blocks, which are rounded up, but for `asked`.
  struct Use {
    std::size_t held = 0;       ///< in tensors that the host has not dropped
    std::size_t asked = 0;      ///< what those tensors hold
    std::size_t peak = 0;       ///< most held, within tasks too
    std::size_t kept_peak = 0;  ///< most held between tasks
    std::size_t workspace = 0;  ///< most that a task held beyond what was held before or after it
    std::size_t reserved = 0;   ///< beside the pool
    std::size_t allocated = 0;  ///< of the device, with what is reserved
  };
  Use use_of(Rank rank) const;

 private:
  class Pools;
  std::shared_ptr<Pools> pools_;
};

}  // namespace unlatch::exec
