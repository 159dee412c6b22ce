#include "exec/stream_memory.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/stream_meter.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

constexpr std::size_t alignment = 256;  // what CUDA's own allocations have

/// How much of the device the host may take so as not to wait, over what it holds at most. The host
/// can be many steps ahead; without a bound, so would the memory be.
constexpr std::size_t run_ahead = 2;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// The last task of a lane that used a block.
struct User {
  LaneId lane;
  TaskId task;
};

struct Block {
  Rank rank;
  std::size_t size = 0;
  std::byte* memory = nullptr;
  int number = 0;  ///< in the order of allocation
  std::vector<User> users;
  std::size_t asked = 0;  ///< by the tensor that has it

  int last_task() const {
    int last = -1;
    for (const User& user : users) last = std::max(last, user.task.value);
    return last;
  }
};

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
    Block& block = found(rank, rounded_up(bytes));
    block.asked = bytes;
    pools_[rank.value].meter.take(block.size, block.asked, order_.current());
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
    pools_[rank.value].meter.reserve(bytes);
    const auto give_back_reserved = [pools = shared_from_this(), rank, bytes](std::byte* m) {
      pools->memory_.release(rank, m);
      pools->pools_[rank.value].meter.drop_reserved(bytes);
    };
    return {{memory, give_back_reserved}, bytes};
  }

  void use(const Tensor& tensor) {
    if (!tensor.empty()) use(blocks_.at(tensor.data<std::byte>()));
  }

  int device_of(const Tensor& tensor) const {
    return memory_.device_of(blocks_.at(tensor.data<std::byte>()).rank);
  }
  Use use_of(Rank rank) const { return pools_[rank.value].meter.use(); }

 private:
  struct Pool {
    std::unordered_map<std::size_t, std::vector<Block*>> free;  ///< by size, then by number
    StreamMeter meter;
  };

  bool is_past(const User& user) const {
    return order_.is_past(user.task) || (order_.current() && user.lane == order_.lane());
  }
  bool needs_no_wait(const Block& block) const {
    return std::ranges::all_of(block.users, [this](const User& user) { return is_past(user); });
  }

  /// Always the first that will do: what comes again then comes with the same addresses.
  Block& found(Rank rank, std::size_t size) {
    std::vector<Block*>& free = pools_[rank.value].free[size];
    const auto now = std::ranges::find_if(free, [&](Block* b) { return needs_no_wait(*b); });
    if (now != free.end()) return taken(free, now);
    if (free.empty() || may_run_ahead(rank, size)) {
      if (Block* fresh = allocated(rank, size)) return *fresh;
    }
    const auto soonest = std::ranges::min_element(free, {}, &Block::last_task);
    if (soonest != free.end()) return taken(free, soonest);
    for (const Rank other : ranks_beside(rank)) release_free_blocks(other);
    if (Block* fresh = allocated(rank, size)) return *fresh;
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
    return limit_ > 0 && pools_[rank.value].meter.allocated() + bytes > limit_;
  }

  std::string shortage(Rank rank, std::size_t bytes) {
    const std::string needed = fmt::format("out of device memory: {} bytes are needed", bytes);
    const StreamMeter& mine = pools_[rank.value].meter;
    if (exceeds_limit(rank, bytes)) {
      const Use use = mine.use();
      return fmt::format(
          "{} beside the {} in use on rank {}{}, of {} allowed", needed, use.held, rank.value,
          use.reserved == 0 ? "" : fmt::format(" and {} reserved", use.reserved), limit_);
    }
    std::string holders;
    for (const Rank r : ranks_beside(rank)) {
      holders += fmt::format("{}rank {} holds {}", holders.empty() ? "" : ", ", r.value,
                             pools_[r.value].meter.allocated());
    }
    const auto room = memory_.room(rank);
    return fmt::format("{} for rank {}; on device {} {}{}", needed, rank.value,
                       memory_.device_of(rank), holders,
                       room ? fmt::format(", and {} of {} are free", room->free, room->total) : "");
  }

  bool may_run_ahead(Rank rank, std::size_t size) const {
    const StreamMeter& meter = pools_[rank.value].meter;
    return meter.in_pool() + size <= run_ahead * meter.peak_with(size);
  }

  Block& taken(std::vector<Block*>& free, std::vector<Block*>::iterator at) {
    Block& block = **at;
    free.erase(at);
    return block;
  }

  /// Null where the limit or the device has no room for it.
  std::byte* fresh(Rank rank, std::size_t bytes) {
    return exceeds_limit(rank, bytes) ? nullptr : memory_.allocate(rank, bytes);
  }

  Block* allocated(Rank rank, std::size_t size) {
    std::byte* memory = fresh(rank, size);
    if (memory == nullptr) return nullptr;
    pools_[rank.value].meter.allocate(size);
    return &(blocks_[memory] = {rank, size, memory, ++allocations_, {}, 0});
  }

  /// Blocks of other sizes go back to the device; the host waits for their users. What the task at
  /// hand has just dropped stays.
  void release_free_blocks(Rank rank) {
    Pool& pool = pools_[rank.value];
    for (auto& [size, free] : pool.free) {
      std::erase_if(free, [&, bytes = size](Block* block) {
        const auto is_current = [&](TaskId task) { return task == order_.current(); };
        if (std::ranges::any_of(block->users, is_current, &User::task)) return false;
        for (const User& user : block->users) order_.wait_until_over(user.task);
        memory_.release(rank, block->memory);
        pool.meter.release(bytes);
        blocks_.erase(block->memory);
        return true;
      });
    }
  }

  void wait_for_users(Block& block) {
    for (const User& user : block.users) {
      if (order_.current() && !is_past(user)) order_.wait_end(order_.lane(), user.task);
    }
    block.users.clear();
  }

  void use(Block& block) {
    if (!order_.current()) return;  // before the run, which begins with an idle device
    const User now{order_.lane(), *order_.current()};
    const auto same = std::ranges::find(block.users, now.lane, &User::lane);
    if (same == block.users.end()) {
      block.users.push_back(now);
    } else {
      same->task = now.task;
    }
  }

  void give_back(std::byte* memory) {
    Block& block = blocks_.at(memory);
    Pool& pool = pools_[block.rank.value];
    pool.meter.drop(block.size, block.asked, order_.current());
    std::vector<Block*>& free = pool.free[block.size];
    free.insert(std::ranges::upper_bound(free, block.number, {}, &Block::number), &block);
  }

  const TaskGraph& graph_;
  StreamOrder& order_;
  DeviceMemory& memory_;
  std::size_t limit_;
  std::vector<Pool> pools_;  ///< by rank
  std::unordered_map<std::byte*, Block> blocks_;
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
