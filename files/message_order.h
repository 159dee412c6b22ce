// The messages of a schedule, in the order in which its ranks send and receive them.
#pragma once

#include <optional>
#include <string>

#include "files/message_checks.h"
#include "schedules/schedule.h"

namespace unlatch::files {

/// The table with its messages in program order: a RECV right before the work that needs it, a SEND
/// right behind the work that gives it (both of a whole OVERLAP_F_B cell). `copies` of the model
/// have stages that follow one another. UNSHARD, RESHARD and REDUCE_GRAD are left out.
ActionTable in_program_order(const ActionTable& table, int copies);

/// The F, B, I and W of a schedule with its messages in program order.
ActionTable with_messages_in_order(const Schedule& schedule);

/// Why blocking sends mean nothing to a schedule: queues, barriers and phases already say when its
/// messages leave. "" when they do.
std::string why_without_messages(const Schedule& schedule);

/// The deadlock of the schedule's messages in program order, or else of its all-reduces under sends
/// that block; rule "sends" where it has no messages to order. The schedule must be valid.
std::optional<Violation> send_deadlock(const Schedule& schedule, Sends sends);

}  // namespace unlatch::files
