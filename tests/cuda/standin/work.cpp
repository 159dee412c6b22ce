// Work, records and waits on streams, and the captures that note them instead.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/cuda/standin/counts.h"
#include "tests/cuda/standin/device.h"

namespace unlatch::standin {
namespace {

World& world() { return World::instance(); }

std::string in(const char* name, const std::string& what) {
  return fmt::format("{}: {}", name, what);
}

/// Why work may not use the memory there; empty where it may.
std::string complaint(const Range& range, int device, bool from_anywhere) {
  if (range.bytes == 0) return "";
  const Allocation* a = world().allocation(range.at, range.bytes);
  if (a != nullptr && (a->device == device || a->device == host)) return "";
  if (a != nullptr && from_anywhere) {  // CUDA would go through the host unasked
    const bool is_open = !settings().peers || world().opened.contains({device, a->device});
    return is_open ? "" : fmt::format("device {} has no access to device {}", device, a->device);
  }
  if (a != nullptr) {
    return fmt::format("on device {}, memory of device {}", device, a->device);
  }
  const Allocation* former = world().former_allocation(range.at);
  if (former == nullptr) return "memory that nobody allocated";
  return former->freed ? "memory that was freed" : "past the end of an allocation";
}

/// The memory is looked at now and again when the work runs: it must still be the same.
class Checked {
 public:
  Checked(const char* name, int device, bool from_anywhere, std::vector<Range> memory)
      : name_(name), device_(device), from_anywhere_(from_anywhere), memory_(std::move(memory)) {}

  cudaError_t now(cudaError_t error) {
    numbers_.clear();
    for (const Range& range : memory_) {
      const std::string why = complaint(range, device_, from_anywhere_);
      if (!why.empty()) return world().refuse(error, in(name_, why));
      numbers_.push_back(range.bytes == 0 ? 0 : world().allocation(range.at, 1)->number);
    }
    return cudaSuccess;
  }
  cudaError_t later() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (memory_[i].bytes == 0) continue;
      const Allocation* a = world().allocation(memory_[i].at, memory_[i].bytes);
      if (a == nullptr || a->number != numbers_[i]) {
        return world().refuse(cudaErrorIllegalAddress,
                              in(name_, "memory that was freed before it ran"));
      }
    }
    return cudaSuccess;
  }

 private:
  const char* name_;
  int device_;
  bool from_anywhere_;
  std::vector<Range> memory_;
  std::vector<int> numbers_;
};

cudaError_t put(CUstream_st* stream, std::function<cudaError_t()> work) {
  count(Count::works);
  if (stream->capture == nullptr) {
    world().put(stream, {.work = std::move(work)});
    return cudaSuccess;
  }
  std::vector<Node>& nodes = stream->capture->nodes;
  nodes.push_back({.work = std::move(work), .after = stream->tail});
  stream->tail = {static_cast<int>(nodes.size()) - 1};
  return cudaSuccess;
}

cudaError_t check(const char* name, cudaStream_t stream) {
  if (world().failed != cudaSuccess) return world().failed;
  if (world().is_live(stream)) return cudaSuccess;
  return world().refuse(cudaErrorInvalidResourceHandle, in(name, "no stream"));
}

bool fails_now() {
  static int kernels = 0;
  return ++kernels == settings().fail_kernel;
}

}  // namespace

cudaError_t put_kernel(const char* name, cudaStream_t stream, std::vector<Range> memory,
                       std::function<void()> work) {
  if (const cudaError_t error = check(name, stream)) return error;
  if (stream->device != world().current) {
    return world().refuse(cudaErrorInvalidResourceHandle,
                          in(name, "the current device is not the stream's"));
  }
  Checked checked(name, stream->device, false, std::move(memory));
  if (const cudaError_t error = checked.now(cudaErrorInvalidValue)) return error;
  return put(stream, [checked, work = std::move(work)] {
    if (fails_now()) return world().refuse(cudaErrorIllegalAddress, "");
    if (const cudaError_t error = checked.later()) return error;
    work();
    return cudaSuccess;
  });
}

cudaError_t put_copy(cudaStream_t stream, std::vector<Range> memory, std::function<void()> work) {
  constexpr const char* name = "cudaMemcpyAsync";
  if (const cudaError_t error = check(name, stream)) return error;
  Checked checked(name, stream->device, true, std::move(memory));
  if (const cudaError_t error = checked.now(cudaErrorInvalidValue)) return error;
  return put(stream, [checked, work = std::move(work)] {
    if (const cudaError_t error = checked.later()) return error;
    work();
    return cudaSuccess;
  });
}

cudaError_t put_on_all(const std::vector<Part>& parts, std::function<void()> first) {
  constexpr const char* name = "NCCL";
  std::vector<Checked> checked;
  for (const Part& part : parts) {
    if (const cudaError_t error = check(name, part.stream)) return error;
    checked.emplace_back(name, part.stream->device, false, part.memory);
    if (const cudaError_t error = checked.back().now(cudaErrorInvalidValue)) return error;
  }
  CUstream_st* leader = parts.front().stream;
  CUevent_st event;
  for (const Part& part : parts) {
    if (part.stream == leader) continue;
    if (const cudaError_t error = record(part.stream, &event, false)) return error;
    if (const cudaError_t error = wait(leader, &event)) return error;
  }
  put(leader, [checked, first = std::move(first)] {
    for (const Checked& one : checked) {
      if (const cudaError_t error = one.later()) return error;
    }
    first();
    return cudaSuccess;
  });
  if (const cudaError_t error = record(leader, &event, false)) return error;
  for (const Part& part : parts) {
    if (part.stream == leader) continue;
    if (const cudaError_t error = wait(part.stream, &event)) return error;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    put(parts[i].stream, [one = checked[i], work = parts[i].work] {
      if (const cudaError_t error = one.later()) return error;
      work();
      return cudaSuccess;
    });
  }
  return cudaSuccess;
}

/// An external record is a node that records when the graph runs; any other one only tells others
/// of the capture what to follow.
cudaError_t record(CUstream_st* stream, CUevent_st* event, bool external) {
  if (stream->capture != nullptr && external) {
    std::vector<Node>& nodes = stream->capture->nodes;
    nodes.push_back({.work = {}, .event = event, .after = stream->tail});
    stream->tail = {static_cast<int>(nodes.size()) - 1};
    return cudaSuccess;
  }
  event->capture = stream->capture;
  event->tail = stream->tail;
  if (stream->capture != nullptr) return cudaSuccess;
  event->last = std::make_shared<Completion>();
  world().put(stream, {.record = event->last});
  return cudaSuccess;
}

cudaError_t wait(CUstream_st* stream, CUevent_st* event) {
  if (event->capture != nullptr) {
    if (!event->capture->streams.contains(event->capture->origin)) {  // over
      return world().refuse(cudaErrorCapturedEvent, "a wait for an event of a capture that ended");
    }
    if (stream->capture == nullptr) {
      stream->capture = event->capture;
      stream->capture->streams.insert(stream);
      stream->tail.clear();
    }
    if (stream->capture != event->capture) {
      return world().refuse(cudaErrorStreamCaptureMerge, "a wait that joins two captures");
    }
    for (const int node : event->tail) {
      if (std::ranges::find(stream->tail, node) == stream->tail.end()) stream->tail.push_back(node);
    }
    return cudaSuccess;
  }
  if (stream->capture != nullptr) {
    return world().refuse(cudaErrorStreamCaptureIsolation,
                          "a wait inside a capture for an event outside");
  }
  if (event->last == nullptr) {
    return world().refuse(cudaErrorInvalidValue, "a wait for an event that nobody recorded");
  }
  world().put(stream, {.awaited = event->last});
  return cudaSuccess;
}

}  // namespace unlatch::standin
