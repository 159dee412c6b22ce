// Looped breadth-first pipeline: GPipe with V stages a rank, all micro-batches stage by stage.
//
// Lamy-Poirier, MLSys 2023 (arXiv 2211.05953). Idle (P-1)(F+B)/V of a rank's share. The gradient of
// a stage is complete in one piece, so its reduction overlaps the next stage.
#include "schedules/rank_order.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

Schedule looped_bfs(const Shape& shape, const Options&) {
  const int m = shape.micro_batches;
  const int ranks = shape.ranks();
  Schedule schedule("looped-bfs", shape);
  for (const Rank r : up_to<Rank>(ranks)) {
    Program& program = schedule.on(r);
    for (MicroBatch first{0}; first.value < shape.all_micro_batches(); first = first + m) {
      const MicroBatch last = first + (m - 1);
      for (Stage k{r.value}; k.value < shape.stages; k = k + ranks) {
        for (int j = 0; j < m; ++j) program.forward(k, first + j);
      }
      for (Stage k{shape.stages - ranks + r.value}; k.value >= 0; k = k - ranks) {
        for (int j = 0; j < m; ++j) program.backward(k, last - j);
        program.update(k, last);
      }
      program.next_step();
    }
  }
  return schedule;
}

Promise promise(const Shape& shape, const Options&) {
  std::optional<int> idle;
  if (shape.micro_batches >= shape.ranks()) idle = 3 * (shape.ranks() - 1);
  return synchronous_promise(shape, std::vector<int>(shape.stages, shape.micro_batches), idle);
}

}  // namespace

Method looped_bfs_method() {
  return {.name = "looped-bfs",
          .title = "Looped breadth-first pipeline",
          .source = "Lamy-Poirier, MLSys 2023, arXiv 2211.05953",
          .breaks = {},
          .synchronous = true,
          .uses_micro_batches = true,
          .chunks = {.usual = 2, .least = 1, .most = many_chunks},
          .staleness = "0",
          .memory = "M tapes a stage, 1 version",
          .keys = {},
          .resolve = {},
          .make = looped_bfs,
          .promise = promise};
}

}  // namespace unlatch
