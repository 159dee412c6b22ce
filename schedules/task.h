// Task: one piece of work of one stage on one micro-batch; a plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schedules/ids.h"

namespace unlatch {

/// What a task does. Letters in text output are those of letter(Op).
enum class Op : std::uint8_t {
  forward,          ///< F: h_{k+1}(i) from h_k(i); the last stage also computes the loss
  backward,         ///< B: input and weight gradient
  backward_input,   ///< I: input gradient only
  backward_weight,  ///< W: weight gradient only, after I
  recompute,        ///< R: rebuilds the tape of a stored input with the weights of its own time
  update,           ///< U: optimizer step; its version field is the version it is applied to
  push_forward,     ///< hands h_{k+1}(i) to the queue towards stage k+1 (zero length, not drawn)
  pop_forward,      ///< takes h_k(i) from that queue (zero length, not drawn)
  push_backward,    ///< hands g_k(i) to the queue towards stage k-1 (zero length, not drawn)
  pop_backward,     ///< takes g_{k+1}(i) from that queue (zero length, not drawn)
  send_forward,     ///< SEND_F: h_{k+1}(i) on the link to the rank of stage k+1
  send_backward,    ///< SEND_B: g_k(i) on the link to the rank of stage k-1
  push_gradients,   ///< PUSH: a copy's gradients on the link to the server
  pull_weights,     ///< PULL: the server's weights on the link to a copy
  all_reduce,       ///< AR: joins the copies of a stage (their gradients or weights, see Agreement)
  barrier,          ///< end of a lock-step iteration (zero length, not drawn)
};

/// Which server of a rank runs a task.
enum class Engine : std::uint8_t {
  compute,
  recompute,      ///< second compute lane, for R beside F
  link_forward,   ///< activations towards the next stage's rank
  link_backward,  ///< gradients towards the previous stage's rank
  send,           ///< both, to all ranks, in one queue
  push,           ///< gradients of a stage's copy towards its server
  pull,           ///< weights of a stage's server towards its copy
  all_reduce,     ///< between the copies of a stage; on the rank of the first copy
  control,        ///< barriers
};

/// One ordered queue: a server in the simulator, a queue on the CPU, a stream on the GPU.
struct Lane {
  Rank rank;
  Engine engine = Engine::compute;
  /// Tells the links of one rank apart (the stage on the sending side); 0 for other engines.
  Stage boundary;
  friend auto operator<=>(const Lane&, const Lane&) = default;
};

/// Facts the builder derives for the executor; bits of Task::flags.
enum TaskFlag : std::uint8_t {
  replayed = 1,     ///< F: an R rebuilds the tape, so F keeps only its input
  keeps_old = 2,    ///< U: a later task reads the version it overwrites, so it stays in the stash
  last_reader = 4,  ///< F, B, W or R: nobody reads its stashed weight version afterwards
  learns = 8,       ///< pop_backward: the gradient it takes trains the stage's synthesiser
};

/// Only what the schedule decided; never the state of a run.
struct Task {
  MicroBatch micro_batch;    ///< U: the last micro-batch whose gradient it applies
  std::int32_t version = 0;  ///< weight version read; U: the version it is applied to
  std::int32_t step = 0;     ///< local step of its rank: what one straggler draw multiplies
  Stage stage;
  std::uint16_t lane = 0;  ///< index into TaskGraph::lanes()
  Op op = Op::forward;
  std::uint8_t flags = 0;

  LaneId lane_id() const { return {lane}; }
  bool has(TaskFlag flag) const { return (flags & flag) != 0; }
  friend bool operator==(const Task&, const Task&) = default;
};
static_assert(sizeof(Task) == 20);

/// "F", "B", "I", "W", "R", "U", "SEND_F", .. as the contract writes them.
std::string_view letter(Op op);
/// "compute", "recompute", "send_forward", "send_backward", "send", "push", "pull", "all_reduce",
/// "control".
std::string_view name(Engine engine);
/// "2F0"; an update is "2U5" with the number of the update.
std::string label(const Task& task);
/// The same from its parts, for messages about tasks that do not exist.
std::string label(Op op, Stage stage, MicroBatch micro_batch);

/// True for F, B, I, W, R and U: what keeps a rank busy.
constexpr bool is_compute(Op op) { return op <= Op::update; }
/// True for what an executor has to compute: these, and AR, which keeps a link busy.
constexpr bool is_work(Op op) { return is_compute(op) || op == Op::all_reduce; }
/// True for the zero-length bookkeeping tasks that no drawing shows.
constexpr bool is_hidden(Op op) {
  return (op >= Op::push_forward && op <= Op::pop_backward) || op == Op::barrier;
}
constexpr bool is_send(Op op) { return op == Op::send_forward || op == Op::send_backward; }
/// What travels on a link between a copy of a stage and its server, or among all copies.
constexpr bool joins_copies(Op op) {
  return op == Op::push_gradients || op == Op::pull_weights || op == Op::all_reduce;
}
/// B, or the I that stands for it where backward is split.
constexpr bool gives_input_gradient(Op op) {
  return op == Op::backward || op == Op::backward_input;
}

}  // namespace unlatch
