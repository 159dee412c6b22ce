// ZB-H1: zero bubble by hand within the memory of 1F1B.
//
// Qi et al., ICLR 2024 (arXiv 2401.10241). Idle (P-1)(F+I-W), a third of 1F1B's where F=I=W; rank r
// keeps P-r whole tapes and what W needs of r more.
#include "schedules/schedules.h"
#include "schedules/zero_bubble.h"

namespace unlatch {
namespace {

const ZeroBubble& zb_h1() {
  static const ZeroBubble schedule{"zb-h1", 1};
  return schedule;
}

Promise promise(const Shape& shape, const Options&) {
  std::optional<int> idle;
  if (shape.micro_batches >= shape.stages) idle = shape.stages - 1;
  return zb_h1().promise(shape, idle);
}

}  // namespace

Method zb_h1_method() {
  return {.name = "zb-h1",
          .title = "Zero bubble H1 (memory of 1F1B)",
          .source = "Qi et al., ICLR 2024, arXiv 2401.10241",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .staleness = "0",
          .memory = "min(M, K) tapes, up to k of them for W only; 1 version",
          .keys = {},
          .resolve = {},
          .make = [](const Shape& shape, const Options&) { return zb_h1().make(shape); },
          .promise = promise};
}

}  // namespace unlatch
