#include "files/actions.h"

#include <fmt/format.h>

#include <algorithm>

namespace unlatch::files {

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
    case ActionKind::unshard:
      return "UNSHARD";
    case ActionKind::reshard:
      return "RESHARD";
    case ActionKind::reduce_gradient:
      return "REDUCE_GRAD";
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

bool has_messages(const ActionTable& table) {
  return std::ranges::any_of(table.rows, [](const ActionRow& row) {
    return std::ranges::any_of(row, [](const Action& action) { return is_message(action.kind); });
  });
}

ActionTable without_sharding(const ActionTable& table) {
  ActionTable result;
  for (const ActionRow& row : table.rows) {
    ActionRow& kept = result.rows.emplace_back();
    std::ranges::copy_if(row, std::back_inserter(kept),
                         [](const Action& action) { return action.kind < ActionKind::unshard; });
  }
  return result;
}

}  // namespace unlatch::files
