// ProfileSteps: the graphs of a run that measures layers: a stage a layer, all on one lane.
#pragma once

#include "schedules/graph.h"

namespace unlatch::exec {

/// Steps of one micro-batch each. The first half keeps its tapes: F, B and U of all layers. The
/// second goes the other way: F without a tape, R, I, W and U of all layers.
struct ProfileSteps {
  int layers = 1;
  int warm_up = 0;  ///< of each half
  int samples = 1;  ///< of each half, behind these

  int half() const { return warm_up + samples; }
  bool other_way(MicroBatch n) const { return n.value >= half(); }
  bool left_out(MicroBatch n) const { return n.value % half() < warm_up; }
  TaskGraph graph() const;
};

/// One step that keeps its tapes and splits its backward (F, I and W of all layers), no update.
TaskGraph split_step_graph(int layers);

}  // namespace unlatch::exec
