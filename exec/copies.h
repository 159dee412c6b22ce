// Copies: what keeps several copies of a model one model: sums, averages and servers (Agreement).
#pragma once

#include <memory>
#include <vector>

#include "exec/stage_state.h"
#include "schedules/graph.h"

namespace unlatch::exec {

/// Works on the states of all stages, which must outlive it. Which of its calls may run at once
/// follows from the graph's edges.
class Copies {
 public:
  virtual ~Copies() = default;

  /// AR of a stage of the model.
  virtual void all_reduce(const Task& task, double rate) = 0;
  /// U of one copy of a stage, in place of the plain optimizer step.
  virtual void update(const Task& task, double rate) = 0;
  /// True when the copies have weights of a server, which update() and all_reduce() make.
  virtual bool has_server() const = 0;
  /// The server's newest weights.
  virtual const Tensor& server_weights(Stage model_stage) const = 0;
  /// The weights that a copy was sent, of the version that a task reads.
  virtual const Tensor& sent(const Task& task) = 0;
  /// Where a batch's gradient of a stage is summed; zero at its first use for that batch.
  virtual Tensor& gradient_of(Stage k, int batch) = 0;
  virtual void visit_state(StateVisitor& visitor) = 0;
};

/// Null for a graph with one copy.
std::unique_ptr<Copies> make_copies(const TaskGraph& graph, std::vector<StageState>& stages);

}  // namespace unlatch::exec
