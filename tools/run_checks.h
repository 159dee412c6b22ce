// What a training cannot do, found in its plan and its graph before it begins.
#pragma once

#include "tools/arguments.h"
#include "tools/training_plan.h"

namespace unlatch::tools {

// Each throws Error unless ..

/// .. every micro-batch of the run fits, and gives batch norms more than one value a channel.
void require_pieces_fit(const Arguments& arguments, const TrainingPlan& plan);
/// .. running statistics stand still when a point of a test curve reads them: while a stage does
/// its own update, where its weights are seen.
void require_statistics_at_hand(const Arguments& arguments, const TrainingPlan& plan,
                                const TaskGraph& graph);
/// .. local heads have micro-batches of the one size that they are made for.
void require_heads_fit(const TrainingPlan& plan, const TaskGraph& graph);
/// .. a schedule that gathers the gradients of several batches comes to an update.
void require_updates(const TrainingPlan& plan, const TaskGraph& graph);

}  // namespace unlatch::tools
