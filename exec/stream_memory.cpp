#include "exec/stream_memory.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/stream_pool.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

constexpr std::size_t alignment = 256;  // what CUDA's own allocations have

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

/// Shared with the tensors, which come back to it.
class StreamMemory::Pools : public std::enable_shared_from_this<Pools> {
 public:
  Pools(const TaskGraph& graph, StreamOrder& order, DeviceMemory& memory, std::size_t limit)
      : graph_(graph), order_(order), memory_(memory), limit_(limit), pools_(graph.ranks()) {}

  ~Pools() {
    for (auto& [memory, block] : blocks_) memory_.release(block.rank, memory);
  }

  Tensor take(Rank rank, std::size_t bytes) {
    if (bytes == 0) return {};
    const auto task = order_.current();
    if (task && pools_[rank.value].begins_to_run_ahead(*task)) take_ahead(rank);
    StreamBlock& block = found(rank, rounded_up(bytes));
    block.asked = bytes;
    pools_[rank.value].hold(block, task);
    wait_for_users(block);
    use(block);
    return {{block.memory, [pools = shared_from_this()](std::byte* m) { pools->give_back(m); }},
            bytes};
  }

  Tensor reserve(Rank rank, std::size_t bytes, std::string_view what) {
    std::byte* memory = fresh(rank, bytes);
    if (memory == nullptr) {
      throw RunError(fmt::format("rank {}, {}: {}", rank.value, what, shortage(rank, bytes)));
    }
    pools_[rank.value].reserve(bytes);
    const auto give_back_reserved = [pools = shared_from_this(), rank, bytes](std::byte* m) {
      pools->memory_.release(rank, m);
      pools->pools_[rank.value].drop_reserved(bytes);
    };
    return {{memory, give_back_reserved}, bytes};
  }

  void use(const Tensor& tensor) {
    if (!tensor.empty()) use(blocks_.at(tensor.data<std::byte>()));
  }

  int device_of(const Tensor& tensor) const {
    return memory_.device_of(blocks_.at(tensor.data<std::byte>()).rank);
  }
  Use use_of(Rank rank) const { return pools_[rank.value].meter().use(); }

 private:
  bool is_past(const StreamBlock::User& user) const {
    return order_.is_past(user.task) || (order_.current() && user.lane == order_.lane());
  }
  bool needs_no_wait(const StreamBlock& block) const {
    return std::ranges::all_of(block.users,
                               [this](const StreamBlock::User& user) { return is_past(user); });
  }

  /// Always the first that will do: what comes again then comes with the same addresses.
  StreamBlock& found(Rank rank, std::size_t size) {
    StreamPool& pool = pools_[rank.value];
    std::vector<StreamBlock*>& free = pool.free(size);
    const auto now = std::ranges::find_if(free, [&](StreamBlock* b) { return needs_no_wait(*b); });
    if (now != free.end()) return taken(free, now);
    if (free.empty() || (!pool.runs_ahead() && pool.may_run_ahead(size))) {
      if (StreamBlock* fresh = allocated(rank, size)) return *fresh;
    }
    const auto soonest = std::ranges::min_element(free, {}, &StreamBlock::last_task);
    if (soonest != free.end()) return taken(free, soonest);
    if (exceeds_limit(rank, size)) {
      release_free_blocks(rank);
    } else {
      for (const Rank other : ranks_beside(rank)) release_free_blocks(other);
    }
    if (StreamBlock* fresh = allocated(rank, size)) return *fresh;
    throw RunError(purpose(rank) + shortage(rank, size));
  }

  /// All ranks on the device of one.
  std::vector<Rank> ranks_beside(Rank rank) const {
    std::vector<Rank> ranks;
    for (const Rank r : up_to<Rank>(graph_.ranks())) {
      if (memory_.device_of(r) == memory_.device_of(rank)) ranks.push_back(r);
    }
    return ranks;
  }

  /// Of what comes before the first task; who runs a task says which it is.
  std::string purpose(Rank rank) const {
    if (order_.current()) return "";
    std::string stages;
    for (const Stage k : up_to<Stage>(graph_.shape().stages)) {
      if (graph_.rank_of(k) != rank) continue;
      stages += fmt::format("{}{}", stages.empty() ? "" : ", ", k.value);
    }
    return fmt::format("rank {}, weights, gradients and optimizer state of stage {}: ", rank.value,
                       stages);
  }

  bool exceeds_limit(Rank rank, std::size_t bytes) const {
    return limit_ > 0 && pools_[rank.value].meter().allocated() + bytes > limit_;
  }

  std::string shortage(Rank rank, std::size_t bytes) {
    const std::string needed = fmt::format("out of device memory: {} bytes are needed", bytes);
    const StreamMeter& mine = pools_[rank.value].meter();
    if (exceeds_limit(rank, bytes)) {
      const Use use = mine.use();
      const std::size_t waited_for = use.allocated - use.held - use.reserved;
      return fmt::format(
          "{} beside the {} in use on rank {}{}{}, of {} allowed", needed, use.held, rank.value,
          use.reserved == 0 ? "" : fmt::format(" and {} reserved", use.reserved),
          waited_for == 0 ? ""
                          : fmt::format(" and {} that tasks on their way still use", waited_for),
          limit_);
    }
    std::string holders;
    for (const Rank r : ranks_beside(rank)) {
      holders += fmt::format("{}rank {} holds {}", holders.empty() ? "" : ", ", r.value,
                             pools_[r.value].meter().allocated());
    }
    const auto room = memory_.room(rank);
    return fmt::format("{} for rank {}; on device {} {}{}", needed, rank.value,
                       memory_.device_of(rank), holders,
                       room ? fmt::format(", and {} of {} are free", room->free, room->total) : "");
  }

  void take_ahead(Rank rank) {
    StreamPool& pool = pools_[rank.value];
    for (const std::size_t size : pool.lacking()) {
      StreamBlock* more = pool.may_run_ahead(size) ? allocated(rank, size) : nullptr;
      if (more == nullptr) return;
      pool.free(size).push_back(more);
    }
  }

  StreamBlock& taken(std::vector<StreamBlock*>& free, std::vector<StreamBlock*>::iterator at) {
    StreamBlock& block = **at;
    free.erase(at);
    return block;
  }

  /// Null where the limit or the device has no room for it.
  std::byte* fresh(Rank rank, std::size_t bytes) {
    return exceeds_limit(rank, bytes) ? nullptr : memory_.allocate(rank, bytes);
  }

  StreamBlock* allocated(Rank rank, std::size_t size) {
    std::byte* memory = fresh(rank, size);
    if (memory == nullptr) return nullptr;
    StreamBlock& block = blocks_[memory] = {rank, size, memory, ++allocations_, {}, 0};
    pools_[rank.value].add(block);
    return &block;
  }

  /// Blocks of other sizes go back to the device; the host waits for their users. What the task at
  /// hand has just dropped stays.
  void release_free_blocks(Rank rank) {
    StreamPool& pool = pools_[rank.value];
    const auto goes_back = [&](const StreamBlock* block) {
      const auto is_current = [&](TaskId task) { return task == order_.current(); };
      if (std::ranges::any_of(block->users, is_current, &StreamBlock::User::task)) return false;
      for (const StreamBlock::User& user : block->users) order_.wait_until_over(user.task);
      memory_.release(rank, block->memory);
      pool.remove(*block);
      blocks_.erase(block->memory);
      return true;
    };
    pool.for_each_free([&](std::vector<StreamBlock*>& free) { std::erase_if(free, goes_back); });
  }

  void wait_for_users(StreamBlock& block) {
    for (const StreamBlock::User& user : block.users) {
      if (order_.current() && !is_past(user)) order_.wait_end(order_.lane(), user.task);
    }
    block.users.clear();
  }

  void use(StreamBlock& block) {
    if (!order_.current()) return;  // before the run, which begins with an idle device
    const StreamBlock::User now{order_.lane(), *order_.current()};
    if (graph_.task(now.task).op == Op::update) pools_[block.rank.value].note_update(now.task);
    const auto same = std::ranges::find(block.users, now.lane, &StreamBlock::User::lane);
    if (same == block.users.end()) {
      block.users.push_back(now);
    } else {
      same->task = now.task;
    }
  }

  void give_back(std::byte* memory) {
    StreamBlock& block = blocks_.at(memory);
    pools_[block.rank.value].drop(block, order_.current());
  }

  const TaskGraph& graph_;
  StreamOrder& order_;
  DeviceMemory& memory_;
  std::size_t limit_;
  std::vector<StreamPool> pools_;  ///< by rank
  std::unordered_map<std::byte*, StreamBlock> blocks_;
  int allocations_ = 0;
};

StreamMemory::StreamMemory(const TaskGraph& graph, StreamOrder& order, DeviceMemory& memory,
                           std::size_t limit)
    : pools_(std::make_shared<Pools>(graph, order, memory, limit)) {}
StreamMemory::~StreamMemory() = default;

Tensor StreamMemory::take(Rank rank, std::size_t bytes) { return pools_->take(rank, bytes); }
Tensor StreamMemory::reserve(Rank rank, std::size_t bytes, std::string_view what) {
  return pools_->reserve(rank, bytes, what);
}
void StreamMemory::use(const Tensor& tensor) { pools_->use(tensor); }
int StreamMemory::device_of(const Tensor& tensor) const { return pools_->device_of(tensor); }
StreamMemory::Use StreamMemory::use_of(Rank rank) const { return pools_->use_of(rank); }

}  // namespace unlatch::exec
