#include "tests/cuda/standin/device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace unlatch::standin {

World& World::instance() {
  static World& world = *new World;  // never destroyed: others' destructors still call
  return world;
}

cudaError_t World::refuse(cudaError_t error, std::string why) {
  why_ = std::move(why);
  return error;
}

void hang(const char* call) {
  std::fprintf(stderr, "stand-in: %s would wait for ever\n", call);
  _exit(86);
}

// ---- memory ------------------------------------------------------------------------------------

/// What nobody wrote reads as no number.
void* World::allocate(std::size_t bytes, int device) {
  constexpr std::size_t most_filled = std::size_t{4} << 20;
  auto* memory = static_cast<std::byte*>(std::malloc(std::max<std::size_t>(bytes, 1)));
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0xFF, std::min(bytes, most_filled));
  // Records of freed memory end where the addresses come again.
  auto from = memory_.upper_bound(memory);
  if (from != memory_.begin()) {
    const auto before = std::prev(from);
    if (before->first + before->second.bytes > memory) from = before;
  }
  memory_.erase(from, memory_.lower_bound(memory + std::max<std::size_t>(bytes, 1)));
  memory_[memory] = {bytes, device, ++allocations_, false};
  return memory;
}

cudaError_t World::release(void* memory, bool of_host) {
  if (memory == nullptr) return cudaSuccess;
  const auto found = memory_.find(static_cast<std::byte*>(memory));
  if (found == memory_.end() || found->second.freed || (found->second.device == host) != of_host) {
    return refuse(cudaErrorInvalidValue, "memory freed that is not allocated so");
  }
  found->second.freed = true;
  std::free(memory);
  return cudaSuccess;
}

const Allocation* World::former_allocation(const void* at) const {
  auto found = memory_.upper_bound(static_cast<const std::byte*>(at));
  if (found == memory_.begin()) return nullptr;
  --found;
  return at < found->first + found->second.bytes ? &found->second : nullptr;
}

const Allocation* World::allocation(const void* at, std::size_t bytes) const {
  const Allocation* found = former_allocation(at);
  if (found == nullptr || found->freed) return nullptr;
  const auto* final_byte = static_cast<const std::byte*>(at) + std::max<std::size_t>(bytes, 1) - 1;
  return former_allocation(final_byte) == found ? found : nullptr;
}

std::size_t World::used(int device) const {
  std::size_t sum = 0;
  for (const auto& [memory, a] : memory_) {
    if (!a.freed && a.device == device) sum += a.bytes;
  }
  return sum;
}

// ---- streams -----------------------------------------------------------------------------------

bool World::is_live(const CUstream_st* stream) const {
  return std::ranges::find(streams, stream) != streams.end();
}

void World::put(CUstream_st* stream, Step step) {
  step.put_us = now_us;
  stream->steps.push_back(std::move(step));
}

bool World::can_go_on(const CUstream_st& stream) const {
  if (stream.steps.empty()) return false;
  if (stream.obstacle != nullptr && !stream.obstacle->reached) return false;
  const Step& next = stream.steps.front();
  return next.awaited == nullptr || next.awaited->reached;
}

/// A stream often goes on for a while before another has its turn, so that what lacks a wait comes
/// far too early or late.
bool World::advance() {
  constexpr unsigned stay = 24;  // of 25
  const bool stays = favourite_ != nullptr && is_live(favourite_) && can_go_on(*favourite_) &&
                     random_() % (stay + 1) != 0;
  if (!stays) {
    std::vector<CUstream_st*> able;
    for (CUstream_st* stream : streams) {
      if (can_go_on(*stream)) able.push_back(stream);
    }
    if (able.empty()) return false;
    favourite_ = able[random_() % able.size()];
  }
  go_on(*favourite_);
  return true;
}

void World::go_on(CUstream_st& stream) {
  Step& step = stream.steps.front();
  stream.us = std::max(stream.us, step.put_us);
  if (step.awaited != nullptr) {
    stream.us = std::max(stream.us, step.awaited->us);
  } else if (step.launch != nullptr) {
    go_on(stream, *step.launch);
    if (failed != cudaSuccess || step.launch->left > 0) return;
  } else if (step.work) {
    stream.us += settings().work_us;
    const cudaError_t error = step.work();
    if (error != cudaSuccess) return fail(error);
  } else {
    reach(*step.record, stream.us);
  }
  stream.steps.pop_front();
}

void World::go_on(CUstream_st& stream, Launch& launch) {
  const std::size_t choice = random_() % launch.ready.size();
  const int n = launch.ready[choice];
  launch.ready.erase(launch.ready.begin() + static_cast<std::ptrdiff_t>(choice));
  const std::vector<Node>& nodes = *launch.nodes;
  const auto at = static_cast<std::size_t>(n);
  double us = stream.us;
  for (const int before : nodes[at].after) {
    us = std::max(us, launch.end_us[static_cast<std::size_t>(before)]);
  }
  if (nodes[at].work) {
    us += settings().work_us;
    const cudaError_t error = nodes[at].work();
    if (error != cudaSuccess) return fail(error);
  }
  if (launch.records[at] != nullptr) {
    reach(*launch.records[at], us);
    nodes[at].event->last = launch.records[at];  // until now it said when it was recorded before
  }
  launch.end_us[at] = us;
  for (const int next : nodes[at].before) {
    if (--launch.missing[static_cast<std::size_t>(next)] == 0) launch.ready.push_back(next);
  }
  if (--launch.left == 0) stream.us = std::ranges::max(launch.end_us);
}

/// Nothing that was put on any stream runs any more.
void World::fail(cudaError_t error) {
  failed = error;
  for (CUstream_st* stream : streams) stream->steps.clear();
}

void World::run_until(const std::function<bool()>& done, const char* call) {
  while (failed == cudaSuccess && !done()) {
    if (!advance()) hang(call);
  }
}

bool World::is_idle(int device) const {
  return std::ranges::all_of(streams, [&](const CUstream_st* stream) {
    return stream->device != device || stream->steps.empty();
  });
}

// ---- faults ------------------------------------------------------------------------------------

CompletionPointer World::block() {
  favourite_->obstacle = std::make_shared<Completion>();
  return obstacles_.emplace_back(favourite_->obstacle);
}

void World::reach(Completion& record, double us) {
  if (++records_ == settings().stuck_record) {
    block();
  } else {
    record = {true, us};
  }
}

void World::require_no_obstacle(const char* call) const {
  for (const CompletionPointer& obstacle : obstacles_) {
    if (!obstacle->reached && failed == cudaSuccess) hang(call);
  }
}

}  // namespace unlatch::standin
