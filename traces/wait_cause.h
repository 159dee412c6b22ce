// WaitCause: why a task waited, and which idle time that makes (contract, "idle_by_cause_ms").
#pragma once

#include <cstdint>

#include "schedules/graph.h"
#include "traces/idle.h"

namespace unlatch {

/// Of several that were ready last, the first counts.
enum class WaitCause : std::uint8_t { gradient, activation, update, queue, message, none };

inline WaitCause cause_of(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::gradient:
      return WaitCause::gradient;
    case EdgeKind::activation:
      return WaitCause::activation;
    case EdgeKind::version:
    case EdgeKind::barrier:
    case EdgeKind::phase:
    case EdgeKind::all_reduce:
      return WaitCause::update;
    case EdgeKind::queue:
      return WaitCause::queue;
    case EdgeKind::rendezvous:
      return WaitCause::message;
    case EdgeKind::order:
    case EdgeKind::local:
    case EdgeKind::beside:
      return WaitCause::none;
  }
  return WaitCause::none;
}

/// The idle time of a gap before a task of that kind.
inline nanoseconds& idle_of(IdleCauses& causes, WaitCause cause, Op op) {
  switch (cause) {
    case WaitCause::gradient:
      return causes.backward_lock;
    case WaitCause::activation:
      return causes.forward_lock;
    case WaitCause::update:
      return causes.update_lock;
    case WaitCause::queue:
      return causes.queue;
    case WaitCause::message:
      return causes.transfer;
    case WaitCause::none:
      break;
  }
  if (op == Op::forward) return causes.forward_lock;
  return op == Op::update ? causes.update_lock : causes.backward_lock;
}

}  // namespace unlatch
