#include "files/actions.h"

#include <fmt/format.h>

#include <algorithm>

namespace unlatch::files {
namespace {

template <class Keeps>
ActionTable filtered(const ActionTable& table, Keeps keeps) {
  ActionTable result;
  for (const ActionRow& row : table.rows) {
    ActionRow& kept = result.rows.emplace_back();
    std::ranges::copy_if(row, std::back_inserter(kept), keeps, &Action::kind);
  }
  return result;
}

template <class Is>
bool holds(const ActionTable& table, Is is) {
  return std::ranges::any_of(table.rows, [&](const ActionRow& row) {
    return std::ranges::any_of(row, is, &Action::kind);
  });
}

}  // namespace

std::string_view letter(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "F";
    case ActionKind::backward:
      return "B";
    case ActionKind::backward_input:
      return "I";
    case ActionKind::backward_weight:
      return "W";
    case ActionKind::send_forward:
      return "SEND_F";
    case ActionKind::receive_forward:
      return "RECV_F";
    case ActionKind::send_backward:
      return "SEND_B";
    case ActionKind::receive_backward:
      return "RECV_B";
    case ActionKind::wait_send_forward:
      return "WAIT_SEND_F";
    case ActionKind::wait_send_backward:
      return "WAIT_SEND_B";
    case ActionKind::unshard:
      return "UNSHARD";
    case ActionKind::reshard:
      return "RESHARD";
    case ActionKind::reduce_gradient:
      return "REDUCE_GRAD";
    case ActionKind::wait_reduction:
      return "WAIT_REDUCE_GRAD";
  }
  return "?";
}

std::string label(const Action& action) {
  if (!takes_micro_batch(action.kind)) {
    return fmt::format("{}{}", action.stage.value, letter(action.kind));
  }
  return fmt::format("{}{}{}", action.stage.value, letter(action.kind), action.micro_batch.value);
}

Action partner(const Action& message) {
  Action other = message;
  switch (message.kind) {
    case ActionKind::send_forward:
      other.kind = ActionKind::receive_forward;
      other.stage = message.stage + 1;
      break;
    case ActionKind::receive_forward:
      other.kind = ActionKind::send_forward;
      other.stage = message.stage - 1;
      break;
    case ActionKind::send_backward:
      other.kind = ActionKind::receive_backward;
      other.stage = message.stage - 1;
      break;
    default:
      other.kind = ActionKind::send_backward;
      other.stage = message.stage + 1;
      break;
  }
  return other;
}

Action wait_of(const Action& send) {
  Action wait = send;
  wait.kind = send.kind == ActionKind::send_forward ? ActionKind::wait_send_forward
                                                    : ActionKind::wait_send_backward;
  return wait;
}

Action awaited_send(const Action& wait) {
  Action send = wait;
  send.kind = wait.kind == ActionKind::wait_send_forward ? ActionKind::send_forward
                                                         : ActionKind::send_backward;
  return send;
}

bool has_messages(const ActionTable& table) { return holds(table, is_message); }
bool has_waits(const ActionTable& table) { return holds(table, is_wait); }

ActionTable without_sharding(const ActionTable& table) {
  return filtered(table, takes_micro_batch);
}

ActionTable without_waits(const ActionTable& table) {
  return filtered(table, [](ActionKind kind) { return !is_wait(kind); });
}

}  // namespace unlatch::files
