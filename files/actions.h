// Actions: a schedule as rows of actions, one row a rank, the way pipeline runtimes list it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/ids.h"

namespace unlatch::files {

/// The action types of PyTorch's pipelining (torch.distributed.pipelining.schedules).
enum class ActionKind : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  send_forward,        ///< the stage's output, to the next stage
  receive_forward,     ///< the stage's input, from the stage before
  send_backward,       ///< the gradient of the stage's input, to the stage before
  receive_backward,    ///< the gradient of the stage's output, from the next stage
  wait_send_forward,   ///< until the receiver has taken SEND_F; PyTorch 2.15 and later
  wait_send_backward,  ///< the same of SEND_B
  unshard,             ///< gathers sharded weights; no micro-batch
  reshard,             ///< frees them again; no micro-batch
  reduce_gradient,     ///< data-parallel reduction of the stage's gradient; no micro-batch
  wait_reduction,      ///< until REDUCE_GRAD has ended; no micro-batch; PyTorch 2.15 and later
};

/// Whether an action shares an OVERLAP_F_B cell with its neighbours.
enum class Overlap : std::uint8_t { none, first, next };

struct Action {
  Stage stage;
  MicroBatch micro_batch{-1};  ///< -1 where the type takes none
  std::int32_t column = 0;     ///< of its cell, from 0; idle cells count
  ActionKind kind = ActionKind::forward;
  Overlap overlap = Overlap::none;
  friend bool operator==(const Action&, const Action&) = default;
};

using ActionRow = std::vector<Action>;

/// One row a rank.
struct ActionTable {
  std::vector<ActionRow> rows;
  friend bool operator==(const ActionTable&, const ActionTable&) = default;
};

/// "F", "SEND_F", "REDUCE_GRAD", ..
std::string_view letter(ActionKind kind);
/// "2F0", "2UNSHARD".
std::string label(const Action& action);

constexpr bool takes_micro_batch(ActionKind kind) { return kind < ActionKind::unshard; }
/// F, B, I and W.
constexpr bool is_compute(ActionKind kind) { return kind <= ActionKind::backward_weight; }
/// Sends and receives.
constexpr bool is_message(ActionKind kind) {
  return kind >= ActionKind::send_forward && kind <= ActionKind::receive_backward;
}
constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::send_forward || kind == ActionKind::send_backward;
}
constexpr bool is_send_wait(ActionKind kind) {
  return kind == ActionKind::wait_send_forward || kind == ActionKind::wait_send_backward;
}
/// WAIT_SEND_F, WAIT_SEND_B and WAIT_REDUCE_GRAD.
constexpr bool is_wait(ActionKind kind) {
  return is_send_wait(kind) || kind == ActionKind::wait_reduction;
}
/// B, or the I that stands for it where the backward is split.
constexpr bool gives_input_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}

/// The other end of a message: 1RECV_F0 of 0SEND_F0 and the other way round.
Action partner(const Action& message);

/// WAIT_SEND_F of SEND_F, WAIT_SEND_B of SEND_B, and the other way round.
Action wait_of(const Action& send);
Action awaited_send(const Action& wait);

/// True when any row sends or receives: the table is a compute_comms one.
bool has_messages(const ActionTable& table);

/// True when any row waits for a send or a reduction.
bool has_waits(const ActionTable& table);

/// The table without UNSHARD, RESHARD, REDUCE_GRAD and WAIT_REDUCE_GRAD.
ActionTable without_sharding(const ActionTable& table);

/// The table without WAIT_SEND_F, WAIT_SEND_B and WAIT_REDUCE_GRAD.
ActionTable without_waits(const ActionTable& table);

}  // namespace unlatch::files
