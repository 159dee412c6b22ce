// Waits of compute_comms tables: WAIT_SEND_F, WAIT_SEND_B and WAIT_REDUCE_GRAD, which PyTorch asks
// for from 2.15 on and older versions do not read.
//
// torch/distributed/pipelining/schedules.py of 2.15, `_add_wait_send`, `_add_reduce_grad`,
// `_validate_send_waits`, `_prepare_schedule_with_comms`.
#pragma once

#include <optional>
#include <vector>

#include "files/actions.h"
#include "schedules/graph.h"
#include "schedules/violation.h"

namespace unlatch::files {

/// WAIT_REDUCE_GRAD right behind every REDUCE_GRAD of a table that has none. PyTorch does so before
/// it adds the messages, whose places depend on it.
ActionTable with_reduction_waits(const ActionTable& table);

/// A wait for every SEND of a table that has none: WAIT_SEND_F behind the B or I of the same stage
/// and micro-batch, which proves that the receiver has taken the activation; the others at the end
/// of the row, in the order of the sends.
ActionTable with_send_waits(const ActionTable& table);

/// A table with any wait must wait once for every send, later in its row, and for every reduction
/// before the next one of its row. Rules "missing" and "order"; nothing for a table without waits.
/// Says nothing of actions outside the shape.
std::vector<Violation> wait_violations(const ActionTable& table, const Shape& shape);

/// The shortest cycle of waits when a WAIT_SEND ends no sooner than the receiver has come to the
/// RECV, which itself holds up only the work that needs it. The table must keep the other rules.
std::optional<Violation> wait_deadlock(const ActionTable& table);

}  // namespace unlatch::files
