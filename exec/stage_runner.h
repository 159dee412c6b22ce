// StageRunner: the tasks of a graph on stage modules; owns what lives between tasks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/copies.h"
#include "exec/joint_gradients.h"
#include "exec/task_runner.h"
#include "schedules/graph.h"
#include "traces/memory.h"

namespace unlatch::exec {

/// What a run is told as it goes. Called on worker threads, never two calls for one stage at once.
struct Observer {
  /// Loss of one micro-batch, from the forward of the last stage.
  std::function<void(MicroBatch, const Loss&)> loss;
  /// Weights of a stage after its update number `version` (from 0).
  std::function<void(Stage, int version, const Tensor& weights)> update;
  /// Norm of a batch's gradient before it is clipped, of the whole model or of the stage. Of stages
  /// that compute in host memory.
  std::function<void(Stage, int batch, double norm)> norm = {};
};

/// Which forward moves the running statistics of batch norms where a micro-batch is recomputed: F
/// alone, as GPipe does, R alone, as PETRA does, or each, as the code of Features Replay does. All
/// of them normalise by the batch, so that this is about evaluation only.
enum class StatisticUpdates { forward, recompute, both };

/// Weights and their stashed versions, activations, tapes, stored inputs, gradients in flight and
/// optimizer steps of all stages. What each task reads and writes follows from the graph, so the
/// result never depends on timing. As the contract counts memory, a stage of a schedule that
/// recomputes keeps every input until the end of B. For one run of one graph.
class StageRunner : public TaskRunner {
 public:
  /// `rate` gives the learning rate for the gradient of a batch. Everything referred to must
  /// outlive the runner. `heads` are for schedules with local gradients, one a stage, null for the
  /// last. Throws Error unless there is one module a stage, and one head where they are needed,
  /// where statistics would be moved by forwards that may run at once, and like JointGradients,
  /// where gradients are clipped or stages hold copies of a table.
  StageRunner(const TaskGraph& graph, std::vector<StageModule*> modules, Feed& feed,
              std::function<double(int batch)> rate, Observer observer = {},
              std::vector<LocalHead*> heads = {},
              StatisticUpdates statistics = StatisticUpdates::forward,
              const std::optional<models::GradientClip>& clip = {});

  void run(const Task& task, Workspace& workspace) override;

  /// Everything that tasks leave to later tasks, those of the modules and heads included. While no
  /// task runs; restoring is for a runner that has run none.
  void visit_state(StateVisitor& visitor);

  /// Newest weights of a stage, those of the server if its copies have one; not while a run goes
  /// on.
  const Tensor& weights(Stage k) const;

  /// What is kept at this moment, and was at most.
  const KeptMemory& kept() const { return kept_; }
  /// How large each stage's tapes, inputs, weights and so on were; 0 for what no task made. Not
  /// while a run goes on.
  MemorySizes sizes() const;

 private:
  void open(Stage k, StageModule* module, LocalHead* head);
  static void visit_stage(StateVisitor& visitor, StageState& stage);
  void perform(const Task& task, Workspace& workspace);
  /// The weights of the version that a task reads, from the stash if an update came between.
  const Tensor& read_weights(const Task& task);
  Tensor target_of(const Task& task);
  Tensor target_of_head(const Task& task);
  Tensor take_input(const Task& task);
  bool moves_statistics(const Task& task) const;
  void require_one_mover() const;
  StageModule::Pass pass_of(const Task& task) const;
  void forward(const Task& task, Workspace& workspace);
  void recompute(const Task& task, Workspace& workspace);
  void backward(const Task& task, Workspace& workspace);  ///< B and I
  void backward_weight(const Task& task, Workspace& workspace);
  Tensor output_gradient(const Task& task, Workspace& workspace);
  void end_gradient(const Task& task);
  void forget(const Task& task);
  void learn(const Task& task, Workspace& workspace);
  void update(const Task& task);
  /// Each copy reads what it was sent by a server.
  bool served() const { return is_served(graph_.shape(), graph_.learning()); }
  Tensor& gradient_of(const Task& task);
  void follow_drift();
  Tensor weights_for_backward(const Task& task);
  double rate_of(const Task& task) const;
  double loss_scale_of(const Task& task) const;
  void all_reduce(const Task& task);
  void observe_server(const Task& task);
  void hand_on(const Task& task, Tensor output, Workspace& workspace);
  StageState& state(const Task& task) { return stages_[task.stage.value]; }
  GradientSource source() const { return graph_.learning().local_gradients.source; }
  bool has_feedback() const { return source() == GradientSource::feedback; }
  bool is_last(Stage k) const { return graph_.shape().is_last(k); }

  const TaskGraph& graph_;
  Feed& feed_;
  std::function<double(int)> rate_;
  Observer observer_;
  StatisticUpdates statistics_;
  bool recomputes_;
  KeptMemory kept_;
  std::vector<StageState> stages_;
  std::vector<int> delays_;  ///< forward staleness by stage, where PipeMare's corrections need it
  std::vector<Tensor> drifts_;      ///< mean steps of each stage's weights, likewise
  std::unique_ptr<Copies> copies_;  ///< null for one copy of the model
  std::optional<JointGradients> joint_;
};

}  // namespace unlatch::exec
