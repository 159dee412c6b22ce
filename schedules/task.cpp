#include "schedules/task.h"

#include <fmt/format.h>

namespace unlatch {

std::string_view letter(Op op) {
  switch (op) {
    case Op::forward:
      return "F";
    case Op::backward:
      return "B";
    case Op::backward_input:
      return "I";
    case Op::backward_weight:
      return "W";
    case Op::recompute:
      return "R";
    case Op::update:
      return "U";
    case Op::push_forward:
      return "PUSH_F";
    case Op::pop_forward:
      return "POP_F";
    case Op::push_backward:
      return "PUSH_B";
    case Op::pop_backward:
      return "POP_B";
    case Op::send_forward:
      return "SEND_F";
    case Op::send_backward:
      return "SEND_B";
    case Op::push_gradients:
      return "PUSH";
    case Op::pull_weights:
      return "PULL";
    case Op::all_reduce:
      return "AR";
    case Op::barrier:
      return "BARRIER";
  }
  return "?";
}

std::string_view name(Engine engine) {
  switch (engine) {
    case Engine::compute:
      return "compute";
    case Engine::recompute:
      return "recompute";
    case Engine::link_forward:
      return "send_forward";
    case Engine::link_backward:
      return "send_backward";
    case Engine::send:
      return "send";
    case Engine::push:
      return "push";
    case Engine::pull:
      return "pull";
    case Engine::all_reduce:
      return "all_reduce";
    case Engine::control:
      return "control";
  }
  return "?";
}

std::string label(Op op, Stage stage, MicroBatch micro_batch) {
  return fmt::format("{}{}{}", stage.value, letter(op), micro_batch.value);
}

std::string label(const Task& task) {
  if (task.op == Op::barrier) return fmt::format("BARRIER{}", task.step);
  const bool update = task.op == Op::update || joins_copies(task.op);
  return fmt::format("{}{}{}", task.stage.value, letter(task.op),
                     update ? task.version : task.micro_batch.value);
}

}  // namespace unlatch
