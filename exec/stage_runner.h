// StageRunner: the tasks of a graph on stage modules; owns what lives between tasks.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "exec/task_runner.h"
#include "schedules/graph.h"

namespace unlatch::exec {

/// What a run is told as it goes. Called on worker threads, never two calls for one stage at once.
struct Observer {
  /// Loss of one micro-batch, from the forward of the last stage.
  std::function<void(MicroBatch, const Loss&)> loss;
  /// Weights of a stage after its update number `version` (from 0).
  std::function<void(Stage, int version, const Tensor& weights)> update;
};

/// Weights and their stashed versions, activations, tapes, stored inputs, gradients in flight and
/// optimizer steps of all stages. What each task reads and writes follows from the graph, so the
/// result never depends on timing. For one run of one graph.
class StageRunner : public TaskRunner {
 public:
  /// `rate` gives the learning rate for the gradient of a batch. Everything referred to must
  /// outlive the runner. Throws Error unless there is one module a stage.
  StageRunner(const TaskGraph& graph, std::vector<StageModule*> modules, Feed& feed,
              std::function<double(int batch)> rate, Observer observer = {});

  void run(const Task& task, Workspace& workspace) override;

  /// Newest weights of a stage; not while a run goes on.
  const Tensor& weights(Stage k) const { return stages_[k.value].weights; }
  /// Starts from these instead of the modules' initial weights.
  void set_weights(Stage k, Tensor weights) { stages_[k.value].weights = std::move(weights); }

 private:
  struct State {
    StageModule* module = nullptr;
    Tensor weights;
    Tensor gradient;                        ///< summed since the last update
    int version = 0;                        ///< updates done
    std::unordered_map<int, Tensor> stash;  ///< older versions that a backward will read
    std::vector<Tensor> activations;        ///< h_k(i) on its way into the stage
    std::vector<Tensor> errors;             ///< g_{k+1}(i) on its way into the stage
    std::vector<Tensor> inputs;             ///< h_k(i) kept for R
    std::vector<std::unique_ptr<StageModule::Tape>> tapes;
  };

  void forward(const Task& task, Workspace& workspace);
  void recompute(const Task& task, Workspace& workspace);
  void backward(const Task& task, Workspace& workspace);
  void update(const Task& task);
  void hand_on(const Task& task, Tensor output, Workspace& workspace);
  State& state(const Task& task) { return stages_[task.stage.value]; }
  bool is_last(Stage k) const { return k == graph_.shape().last_stage(); }

  const TaskGraph& graph_;
  Feed& feed_;
  std::function<double(int)> rate_;
  Observer observer_;
  BufferPool pool_;
  std::vector<State> stages_;
};

}  // namespace unlatch::exec
