// Lowering: adds the messages (and shards) that a compute_only table leaves out, in the order in
// which PyTorch's runtime adds them; and its unit-step checker.
//
// torch/distributed/pipelining/schedules.py, `_add_unshard_reshard`, `_add_reduce_grad`,
// `_add_send_recv`, `_simulate_comms_compute`.
#pragma once

#include "files/actions.h"
#include "schedules/graph.h"

namespace unlatch::files {

/// A SEND behind every F and B (or I) whose result another rank needs; its RECV goes to the end of
/// the receiver's row as it stands at that moment, so that the order of paired messages is
/// consistent. The table must be valid (a whole schedule). Throws Error where the rows wait for
/// each other.
ActionTable with_messages(const ActionTable& table);

/// UNSHARD before a stage is used and RESHARD when it is not among the next three; REDUCE_GRAD
/// after a stage's last gradient of `micro_batches`. Comes before with_messages.
ActionTable with_sharding(const ActionTable& table, int micro_batches);

/// Steps that a table with messages takes when every action, messages and waits included, takes one
/// step of its rank. No timing model. Throws Error for what PyTorch's checker does not know
/// (shards, overlapping blocks) and for rows that wait for each other.
int unit_steps(const ActionTable& table, const Shape& shape);

}  // namespace unlatch::files
