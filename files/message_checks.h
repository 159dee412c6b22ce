// What the messages of a compute_comms table must keep to, and the deadlocks that blocking sends
// add.
#pragma once

#include <optional>
#include <vector>

#include "files/actions.h"
#include "schedules/schedule.h"

namespace unlatch::files {

/// Every transfer between two ranks sent once and received once, after its producer and before its
/// consumer; none within a rank; and both ranks of a direction agree on the order. Rules
/// "missing", "duplicate", "placement", "order", "range". `schedule` gives shape and placement.
std::vector<Violation> message_violations(const ActionTable& table, const Schedule& schedule);

/// How a rank that sends goes on. A send that the table waits for elsewhere (WAIT_SEND_F or
/// WAIT_SEND_B) goes on at once, and the wait ends when the receiver has come to the receive.
enum class Sends {
  buffered,    ///< at once
  rendezvous,  ///< when the receiver has come to the matching receive
  grouped,     ///< as rendezvous, but messages next to each other in a row are one call, whose
               ///< parts progress together
};

/// "buffered", "rendezvous", "grouped".
std::string_view name(Sends sends);

/// The shortest cycle of waits under such sends, every rank running its row in order and waiting
/// in a receive until the sender has come to the send; nothing when the table runs to its end.
std::optional<Violation> send_deadlock(const ActionTable& table, Sends sends);

}  // namespace unlatch::files
