// ZB-H2: zero bubble by hand with twice the tapes of 1F1B.
//
// Qi et al., ICLR 2024 (arXiv 2401.10241). Idle (P-1)(F+I-2W), none where F=I=W: every rank is busy
// from its first task to its last, and the ranks start and end one after the other.
#include "schedules/schedules.h"
#include "schedules/zero_bubble.h"

namespace unlatch {
namespace {

const ZeroBubble& zb_h2() {
  static const ZeroBubble schedule{"zb-h2", 2};
  return schedule;
}

Promise promise(const Shape& shape, const Options&) {
  std::optional<int> idle;
  if (shape.micro_batches >= 2 * shape.stages - 1) idle = 0;
  return zb_h2().promise(shape, idle);
}

}  // namespace

Method zb_h2_method() {
  return {.name = "zb-h2",
          .title = "Zero bubble H2 (twice the memory of 1F1B)",
          .source = "Qi et al., ICLR 2024, arXiv 2401.10241",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .staleness = "0",
          .memory = "min(M, 2K-1) tapes, up to 2k of them for W only; 1 version",
          .keys = {},
          .resolve = {},
          .make = [](const Shape& shape, const Options&) { return zb_h2().make(shape); },
          .promise = promise};
}

}  // namespace unlatch
