// The stand-in's devices: streams whose work waits until the host asks for it and then runs in some
// legal order, memory that knows its device, and a clock. Shared by the stand-ins of all libraries.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/standin/settings.h"

namespace unlatch::standin {

/// One record of an event; who waits for it is not disturbed by the next.
struct Completion {
  bool reached = false;
  double us = 0;
};
using CompletionPointer = std::shared_ptr<Completion>;

/// Memory that a piece of work reads or writes.
struct Range {
  const void* at;
  std::size_t bytes;
};

/// A piece of work in a graph.
struct Node {
  std::function<cudaError_t()> work = {};  ///< null where it only records
  CUevent_st* event = nullptr;             ///< recorded behind it
  std::vector<int> after = {};
  std::vector<int> before = {};  ///< of which nodes; known once the graph is whole
};

/// A graph on its way.
struct Launch {
  std::shared_ptr<const std::vector<Node>> nodes;
  std::vector<CompletionPointer> records;  ///< by node, null where none
  std::vector<std::size_t> missing;        ///< by node, of those before it
  std::vector<double> end_us;
  std::vector<int> ready;
  std::size_t left = 0;
};

/// What a stream does next: waits for `awaited`, or goes on with `launch`, or works and records.
struct Step {
  CompletionPointer awaited = {};
  std::shared_ptr<Launch> launch = {};
  std::function<cudaError_t()> work = {};
  CompletionPointer record = {};
  double put_us = 0;  ///< when the host put it there
};

struct Capture {
  CUstream_st* origin = nullptr;
  std::set<CUstream_st*> streams = {};
  std::vector<Node> nodes = {};
};

}  // namespace unlatch::standin

struct CUstream_st {
  int device = 0;
  std::deque<unlatch::standin::Step> steps = {};
  double us = 0;
  unlatch::standin::CompletionPointer obstacle = {};  ///< what it does not pass; null: nothing
  std::shared_ptr<unlatch::standin::Capture> capture = {};
  std::vector<int> tail = {};  ///< nodes that the next one of the capture follows
};

struct CUevent_st {
  int device = 0;
  bool timed = true;
  unlatch::standin::CompletionPointer last = {};
  std::shared_ptr<unlatch::standin::Capture> capture =
      {};  ///< where it was recorded last, if in one
  std::vector<int> tail = {};
};

struct CUgraph_st {
  std::vector<unlatch::standin::Node> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<unlatch::standin::Node>> nodes;
};

namespace unlatch::standin {

constexpr int host = -1;  ///< in the place of a device: page-locked memory

struct Allocation {
  std::size_t bytes = 0;
  int device = host;
  int number = 0;
  bool freed = false;
};

/// For one host thread, as the library that is tested. Nothing runs before the host asks.
class World {
 public:
  static World& instance();

  int current = 0;
  cudaError_t failed = cudaSuccess;  ///< of work on its way; every call then gives it
  cudaError_t last = cudaSuccess;    ///< for cudaGetLastError
  std::vector<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::set<std::pair<int, int>> opened;  ///< the first device may reach the second's memory
  double now_us = 0;                     ///< what the host has seen

  /// Remembers why, for the message.
  cudaError_t refuse(cudaError_t error, std::string why);
  const std::string& why() const { return why_; }

  // ---- memory
  void* allocate(std::size_t bytes, int device);
  cudaError_t release(void* memory, bool of_host);
  /// Null where nobody allocated it, or where it was freed.
  const Allocation* allocation(const void* at, std::size_t bytes) const;
  /// As `allocation`, freed ones too.
  const Allocation* former_allocation(const void* at) const;
  std::size_t used(int device) const;

  // ---- streams
  bool is_live(const CUstream_st* stream) const;
  void put(CUstream_st* stream, Step step);
  /// Lets one stream go on with one step. False where none can.
  bool advance();
  /// Goes on until it is so. Ends the process where that will never be, and says which call hangs.
  void run_until(const std::function<bool()>& done, const char* call);
  bool is_idle(int device) const;

  // ---- faults
  /// The work that runs never ends, unless the result is marked as reached.
  CompletionPointer block();
  /// Ends the process where something never ends that the call would wait for.
  void require_no_obstacle(const char* call) const;

 private:
  bool can_go_on(const CUstream_st& stream) const;
  void go_on(CUstream_st& stream);
  void go_on(CUstream_st& stream, Launch& launch);
  void fail(cudaError_t error);
  void reach(Completion& record, double us);

  std::string why_;
  std::map<const std::byte*, Allocation> memory_;
  int allocations_ = 0;
  std::mt19937 random_{settings().seed};
  CUstream_st* favourite_ = nullptr;  ///< the one that went on last
  int records_ = 0;
  std::vector<CompletionPointer> obstacles_;
};

/// Puts work on a stream, or into the graph that the stream captures. The current device must be
/// the stream's, and all memory lie there, now and when the work runs.
cudaError_t put_kernel(const char* name, cudaStream_t stream, std::vector<Range> memory,
                       std::function<void()> work);
/// The same for a copy, whose memory may lie on any device that the stream's was given access to,
/// or has no way to.
cudaError_t put_copy(cudaStream_t stream, std::vector<Range> memory, std::function<void()> work);
/// A stream's part in work of several streams.
struct Part {
  cudaStream_t stream;
  std::vector<Range> memory;   ///< on the stream's device
  std::function<void()> work;  ///< starts when all streams have come to their parts
};
/// `first` comes before all of the parts.
cudaError_t put_on_all(const std::vector<Part>& parts, std::function<void()> first);

cudaError_t record(CUstream_st* stream, CUevent_st* event, bool external);
cudaError_t wait(CUstream_st* stream, CUevent_st* event);
[[noreturn]] void hang(const char* call);

}  // namespace unlatch::standin
