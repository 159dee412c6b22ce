// Every kind of model on every schedule of the catalogue, and what its losses and gradients are by
// hand: the whole model as one stage, one micro-batch after the other.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exec/dnn_stage.h"
#include "models/dataset.h"
#include "tests/exec/network_run.h"

namespace unlatch::exec {

/// A small network of one kind, and its data.
struct ModelCase {
  std::string model;
  std::string data = "digits";
  enum class Schedules {
    all,         ///< each method of the catalogue
    all_shapes,  ///< each on each of the shapes
    all_keys,    ///< all variants of each
    some,        ///< a third of the methods, for networks that are slow however narrow
  } schedules = Schedules::all;
};

/// Of each kind that can be trained.
const std::vector<ModelCase>& model_cases();
models::Model model_of(const ModelCase& model);
/// The samples of one batch.
inline constexpr int case_batch = 8;

/// The schedules of the catalogue, in turn on 1, 2 and 3 ranks and on 2 in two replicas, another
/// one for another model; on the next of these where one does not run. In 4 micro-batches a
/// replica, or in another number that divides the batch.
std::vector<NetworkRun> runs_of_every_schedule(const ModelCase& model);

/// Visits each of these runs of each model, with a trace of what it is; says how many visits
/// returned true.
int for_every_run(const std::function<bool(const ModelCase&, NetworkRun)>& visit);
std::string described(const NetworkRun& run);
Shape shape_of(const NetworkRun& run);

/// A stage sees the same samples again, under dropout draws of its own: no one pass by hand is
/// that.
inline bool sees_samples_again(const TaskGraph& graph) { return !graph.learning().sources.empty(); }

/// What a run of this graph computes, without stages, tasks or threads. Samples come straight from
/// the data set.
class ByHand {
 public:
  struct Batch {
    std::vector<double> losses;   ///< of its parts
    std::vector<float> gradient;  ///< of their mean, in the order of the layers
  };

  ByHand(const ModelCase& model, int parts);

  /// At the initial weights.
  const Batch& batch(int number);
  const std::vector<float>& initial_weights() const { return initial_; }
  /// One step of plain gradient descent from there.
  std::vector<float> stepped(const std::vector<float>& gradient, double rate);
  /// Its batch norms see a batch part by part, so that the number of parts matters.
  bool is_normed() const { return !stage_->statistics().empty(); }

 private:
  Batch computed(int number);

  const models::Dataset& data_;
  models::Model model_;
  int parts_;
  models::BatchOrder order_;
  std::unique_ptr<DnnStageModule> stage_;
  std::vector<float> initial_;
  std::map<int, Batch> batches_;
  BufferPool pool_;
  Workspace workspace_;
};

/// Kept for the next caller.
ByHand& by_hand(const ModelCase& model, int parts);
/// The whole batch in one piece; in these parts if batch norms see them.
ByHand& at_once_by_hand(const ModelCase& model, int parts);

/// The same schedule, where the micro-batches of each batch and copy come in the opposite order in
/// every task, backwards above all.
Schedule in_opposite_order(const Schedule& schedule);

}  // namespace unlatch::exec
