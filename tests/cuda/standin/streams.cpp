// The stand-in of CUDA's runtime: streams, events and graphs.
#include <fmt/format.h>

#include "tests/cuda/standin/api.h"
#include "tests/cuda/standin/counts.h"

using namespace unlatch::standin;

namespace {

cudaError_t no_handle() { return world().refuse(cudaErrorInvalidResourceHandle, "no such handle"); }

bool is_live(CUevent_st* event) { return world().events.contains(event); }

cudaError_t record_event(cudaEvent_t event, cudaStream_t stream, bool external) {
  World& w = world();
  if (!is_live(event) || !w.is_live(stream)) return no_handle();
  if (event->device != stream->device) {
    return w.refuse(cudaErrorInvalidResourceHandle, "cudaEventRecord: stream of another device");
  }
  if (external && stream->capture == nullptr) {
    return w.refuse(cudaErrorIllegalState, "an external record outside of a capture");
  }
  return record(stream, event, external);
}

/// Has its last record, outside of captures.
cudaError_t require_recorded(cudaEvent_t event, const char* name) {
  World& w = world();
  if (!is_live(event)) return no_handle();
  if (event->capture != nullptr) {
    return w.refuse(cudaErrorCapturedEvent, fmt::format("{}: recorded in a capture", name));
  }
  if (event->last == nullptr) {
    return w.refuse(cudaErrorInvalidResourceHandle,
                    fmt::format("{}: an event that nobody recorded", name));
  }
  return cudaSuccess;
}

/// Whether the stream that began the capture comes behind all that the others did.
bool all_joined(const Capture& capture) {
  std::vector<bool> before(capture.nodes.size(), false);
  std::vector<int> left = capture.origin->tail;
  while (!left.empty()) {
    const auto at = static_cast<std::size_t>(left.back());
    left.pop_back();
    if (before[at]) continue;
    before[at] = true;
    left.insert(left.end(), capture.nodes[at].after.begin(), capture.nodes[at].after.end());
  }
  return std::ranges::all_of(capture.streams, [&](const CUstream_st* stream) {
    return std::ranges::all_of(stream->tail,
                               [&](int node) { return before[static_cast<std::size_t>(node)]; });
  });
}

}  // namespace

// ---- streams and events ------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return call([&] {
    *stream = new CUstream_st{.device = world().current};
    world().streams.push_back(*stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  World& w = world();
  if (!w.is_live(stream)) return told(no_handle());
  if (!stream->steps.empty()) w.require_no_obstacle("cudaStreamDestroy");
  w.run_until([&] { return stream->steps.empty(); }, "cudaStreamDestroy");
  std::erase(w.streams, stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&] {
    World& w = world();
    if (!w.is_live(stream)) return no_handle();
    if (stream->capture != nullptr) {
      return w.refuse(cudaErrorStreamCaptureUnsupported, "cudaStreamSynchronize in a capture");
    }
    w.run_until([&] { return stream->steps.empty(); }, "cudaStreamSynchronize");
    w.now_us = std::max(w.now_us, stream->us);
    return w.failed;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call([&] {
    if (!world().is_live(stream) || !is_live(event)) return no_handle();
    return wait(stream, event);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&] {
    *event =
        new CUevent_st{.device = world().current, .timed = (flags & cudaEventDisableTiming) == 0};
    world().events.insert(*event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (world().events.erase(event) == 0) return told(no_handle());
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&] { return record_event(event, stream, false); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call([&] { return record_event(event, stream, flags == cudaEventRecordExternal); });
}

/// Lets the device go on for a while.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&] {
    constexpr int most = 64;
    note_question();
    World& w = world();
    if (const cudaError_t error = require_recorded(event, "cudaEventQuery")) return error;
    for (int i = 0; i < most && !event->last->reached && w.failed == cudaSuccess; ++i) {
      if (!w.advance()) break;
    }
    if (w.failed != cudaSuccess) return w.failed;
    if (!event->last->reached) return cudaErrorNotReady;
    w.now_us = std::max(w.now_us, event->last->us);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return call([&] {
    constexpr double us_a_ms = 1e3;
    for (const cudaEvent_t event : {start, end}) {
      if (const cudaError_t error = require_recorded(event, "cudaEventElapsedTime")) return error;
    }
    if (!start->timed || !end->timed || start->device != end->device) {
      return world().refuse(cudaErrorInvalidResourceHandle,
                            "cudaEventElapsedTime: no times, or of two devices");
    }
    if (!start->last->reached || !end->last->reached) return cudaErrorNotReady;
    *ms = static_cast<float>((end->last->us - start->last->us) / us_a_ms);
    return cudaSuccess;
  });
}

// ---- graphs ------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&] {
    World& w = world();
    if (!w.is_live(stream)) return no_handle();
    if (stream->capture != nullptr || mode != cudaStreamCaptureModeRelaxed) {
      return w.refuse(cudaErrorIllegalState, "cudaStreamBeginCapture: captured, or not relaxed");
    }
    stream->capture = std::make_shared<Capture>(Capture{.origin = stream, .streams = {stream}});
    stream->tail.clear();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&] {
    World& w = world();
    *graph = nullptr;
    if (!w.is_live(stream)) return no_handle();
    const std::shared_ptr<Capture> capture = stream->capture;
    if (capture == nullptr || capture->origin != stream) {
      return w.refuse(cudaErrorStreamCaptureUnmatched, "cudaStreamEndCapture: it began elsewhere");
    }
    const bool joined = all_joined(*capture);
    for (CUstream_st* captured : capture->streams) {
      captured->capture = nullptr;
      captured->tail.clear();
    }
    capture->streams.clear();
    if (!joined) {
      return w.refuse(cudaErrorStreamCaptureUnjoined, "a stream of the capture was not joined");
    }
    *graph = new CUgraph_st{std::move(capture->nodes)};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  return call([&] {
    auto nodes = std::make_shared<std::vector<Node>>(graph->nodes);
    for (std::size_t n = 0; n < nodes->size(); ++n) {
      for (const int before : (*nodes)[n].after) {
        (*nodes)[static_cast<std::size_t>(before)].before.push_back(static_cast<int>(n));
      }
    }
    *ready = new CUgraphExec_st{nodes};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return call([&] {
    World& w = world();
    if (!w.is_live(stream)) return no_handle();
    if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
    const std::vector<Node>& nodes = *graph->nodes;
    if (nodes.empty()) return cudaSuccess;
    auto launch = std::make_shared<Launch>();
    launch->nodes = graph->nodes;
    launch->end_us.resize(nodes.size());
    launch->left = nodes.size();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      launch->records.emplace_back();
      if (CUevent_st* event = nodes[n].event) {
        if (!is_live(event)) return no_handle();
        event->capture = nullptr;
        launch->records.back() = std::make_shared<Completion>();
        if (event->last == nullptr) event->last = launch->records.back();
      }
      launch->missing.push_back(nodes[n].after.size());
      if (nodes[n].after.empty()) launch->ready.push_back(static_cast<int>(n));
    }
    w.put(stream, {.launch = std::move(launch)});
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
