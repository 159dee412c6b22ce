// TaskGraph: the immutable graph that the simulator and the executor both read.
#pragma once

#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "schedules/large_pages.h"
#include "schedules/learning.h"
#include "schedules/task.h"

namespace unlatch {

/// The size of a run. ranks * chunks == stages.
///
/// A model may be trained by several copies of it (two directions of one pipeline, data-parallel
/// replicas). Each copy then has stages of its own, copy after copy, and works on its own
/// micro-batches of every batch, again copy after copy.
struct Shape {
  int stages = 4;         ///< of all copies together
  int chunks = 1;         ///< stages a rank
  int micro_batches = 1;  ///< per batch; micro-batches are numbered over the whole run
  int batches = 1;
  /// false: each rank stops after its own local step batches-1 and leaves gradients in flight.
  bool drain = true;
  int copies = 1;    ///< of the model; divides stages and micro_batches
  int replicas = 1;  ///< data-parallel ones among the copies, each with ranks of its own

  int ranks() const { return stages / chunks; }
  int all_micro_batches() const { return micro_batches * batches; }
  Stage last_stage() const { return {stages - 1}; }
  int stages_a_copy() const { return stages / copies; }
  bool is_first(Stage k) const { return k.value % stages_a_copy() == 0; }
  bool is_last(Stage k) const { return (k.value + 1) % stages_a_copy() == 0; }
  /// The last stage of the copy that holds stage k.
  Stage last_of(Stage k) const { return {(copy_of(k) + 1) * stages_a_copy() - 1}; }
  /// The slice of the model that a stage holds, the same in every copy.
  Stage model_stage(Stage k) const { return {k.value % stages_a_copy()}; }
  /// The same stage of the model in every copy.
  auto in_all_copies(Stage k) const {
    const int first = model_stage(k).value;
    return std::views::iota(0, copies) | std::views::transform([first, *this](int copy) {
             return Stage{first + copy * stages_a_copy()};
           });
  }
  int copy_of(Stage k) const { return k.value / stages_a_copy(); }
  int copy_of(MicroBatch i) const { return i.value % micro_batches / (micro_batches / copies); }
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// Why one task waits for another. Decides the cause of idle time and the arrows of a trace.
enum class EdgeKind : std::uint8_t {
  order,       ///< predecessor on the same lane
  activation,  ///< h_{k+1}(i) from stage k to k+1
  gradient,    ///< g_{k+1}(i) from stage k+1 to k
  local,       ///< tape, stored input or join between lanes of one rank
  version,     ///< an update before a reader of its weights, or a reader before the next update
  barrier,     ///< end of a lock-step iteration
  phase,       ///< end of the forward phase before a backward (update lock)
  queue,       ///< a pop frees the place that a push needs
  all_reduce,  ///< from and to what joins the copies of a model
  beside,      ///< R starts together with this F; the only edge that waits for a start, not an end
  rendezvous,  ///< a message that holds its rank up, or what a rank does before it comes to one
};

/// An edge into a task: where it comes from and why, in 32 bits.
class Edge {
 public:
  static constexpr int max_tasks = 1 << 28;
  Edge() = default;
  Edge(TaskId from, EdgeKind kind)
      : bits_(static_cast<std::uint32_t>(from.value) | static_cast<std::uint32_t>(kind) << 28) {}
  TaskId from() const { return {static_cast<std::int32_t>(bits_ & (max_tasks - 1))}; }
  EdgeKind kind() const { return static_cast<EdgeKind>(bits_ >> 28); }
  friend bool operator==(Edge, Edge) = default;

 private:
  std::uint32_t bits_ = 0;
};

/// Copies whose server takes the gradients of one at a time.
inline bool is_served(const Shape& shape, const Learning& learning) {
  return shape.copies > 1 && learning.agreement.kind == Agreement::Kind::server;
}

/// Tasks in one topological order (every edge comes from a smaller id), edges in compressed rows.
/// Immutable, hence safe to read from any number of threads, and may be run any number of times.
class TaskGraph {
 public:
  struct Parts {
    std::string schedule;  ///< canonical specification, for messages and file heads
    Learning learning;
    Shape shape;
    std::vector<Lane> lanes;
    std::vector<Rank> rank_of_stage;
    LongArray<Task> tasks;
    LongArray<std::uint32_t> first_edge;  ///< size tasks + 1
    LongArray<Edge> edges;
  };
  /// Takes the parts as they are; asserts the invariants (sizes, topological order).
  explicit TaskGraph(Parts parts);

  const std::string& schedule() const& { return parts_.schedule; }
  const Shape& shape() const& { return parts_.shape; }
  const Learning& learning() const& { return parts_.learning; }
  const Learning& learning() const&& = delete;
  /// The micro-batch of stage k-1 whose output F(k,i) takes; i itself but in DGL's async mode.
  MicroBatch source(Stage k, MicroBatch i) const {
    const Sources& sources = parts_.learning.sources;
    return sources.empty() ? i : sources[k.value][i.value];
  }
  /// The micro-batch of the data that F(k,i) works on.
  MicroBatch origin(Stage k, MicroBatch i) const;
  int size() const { return static_cast<int>(parts_.tasks.size()); }
  int ranks() const { return parts_.shape.ranks(); }

  std::span<const Task> tasks() const& { return parts_.tasks; }
  std::span<const Task> tasks() const&& = delete;
  const Task& task(TaskId id) const& { return parts_.tasks[id.value]; }
  const Task& task(TaskId) const&& = delete;

  /// The edges into a task, its lane predecessor (EdgeKind::order) first if it has one.
  std::span<const Edge> edges_into(TaskId id) const& {
    return {parts_.edges.data() + parts_.first_edge[id.value],
            parts_.edges.data() + parts_.first_edge[id.value + 1]};
  }
  std::span<const Edge> edges_into(TaskId) const&& = delete;
  std::span<const Edge> edges() const& { return parts_.edges; }
  std::span<const Edge> edges() const&& = delete;

  /// Sorted by rank, then engine, then boundary; control lanes last of their rank.
  std::span<const Lane> lanes() const& { return parts_.lanes; }
  std::span<const Lane> lanes() const&& = delete;
  const Lane& lane(const Task& task) const& { return parts_.lanes[task.lane]; }
  Rank rank(const Task& task) const { return parts_.lanes[task.lane].rank; }
  Rank rank_of(Stage stage) const { return parts_.rank_of_stage[stage.value]; }

  auto ids() const { return up_to<TaskId>(size()); }

  /// Everything but lanes, tasks and edges: what a pass over the graph starts from.
  Parts frame() const;

  /// Bytes held by the graph.
  std::size_t memory_bytes() const;

 private:
  Parts parts_;
};

/// The batch a task works for.
inline int batch_of(const TaskGraph& graph, const Task& task) {
  return task.micro_batch.value / graph.shape().micro_batches;
}

/// True when an edge carries data from one rank to another (activation or gradient).
bool crosses_ranks(const TaskGraph& graph, Edge edge, const Task& to);

/// The tasks of each lane, in the order that the lane runs them.
std::vector<std::vector<TaskId>> tasks_by_lane(const TaskGraph& graph);

}  // namespace unlatch
