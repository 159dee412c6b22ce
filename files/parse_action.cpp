#include "files/parse_action.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "schedules/graph.h"

namespace unlatch::files {
namespace {

constexpr int most_stages = 1 << 20;

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct TypeName {
  std::string_view name;
  ActionKind kind;
};
constexpr TypeName type_names[] = {
    {"F", ActionKind::forward},
    {"B", ActionKind::backward},
    {"I", ActionKind::backward_input},
    {"W", ActionKind::backward_weight},
    {"BW", ActionKind::backward},
    {"SEND_F", ActionKind::send_forward},
    {"RECV_F", ActionKind::receive_forward},
    {"SEND_B", ActionKind::send_backward},
    {"RECV_B", ActionKind::receive_backward},
    {"WAIT_SEND_F", ActionKind::wait_send_forward},
    {"WAIT_SEND_B", ActionKind::wait_send_backward},
    {"UNSHARD", ActionKind::unshard},
    {"RESHARD", ActionKind::reshard},
    {"REDUCE_GRAD", ActionKind::reduce_gradient},
    {"WAIT_REDUCE_GRAD", ActionKind::wait_reduction},
};

constexpr std::string_view no_action =
    "write <stage><type><micro-batch> with a type of F B I W SEND_F RECV_F SEND_B RECV_B "
    "WAIT_SEND_F WAIT_SEND_B, UNSHARD RESHARD REDUCE_GRAD WAIT_REDUCE_GRAD without micro-batch, or "
    "(..;..)OVERLAP_F_B, as in 2F0";

}  // namespace

std::string_view parse_action(std::string_view token, Action& action, bool& old_whole) {
  const char* at = token.data();
  const char* const end = at + token.size();
  if (at == end || !is_digit(*at)) return no_action;
  const auto stage = std::from_chars(at, end, action.stage.value);
  if (stage.ec != std::errc() || action.stage.value >= most_stages) return "no stage is so large";
  at = stage.ptr;
  const char* const name = at;
  while (at != end && !is_digit(*at)) ++at;
  const std::string_view type(name, static_cast<std::size_t>(at - name));
  const auto* known = std::ranges::find(type_names, type, &TypeName::name);
  if (known == std::end(type_names)) return no_action;
  action.kind = known->kind;
  old_whole = type == "BW";
  if (!takes_micro_batch(action.kind)) return at == end ? "" : "this type takes no micro-batch";
  if (at == end) return "the micro-batch is missing";
  const auto number = std::from_chars(at, end, action.micro_batch.value);
  if (number.ptr != end) return no_action;
  if (number.ec != std::errc() || action.micro_batch.value >= Edge::max_tasks) {
    return "no micro-batch is so large";
  }
  return "";
}

}  // namespace unlatch::files
