// Learning: what a method computes beyond what its tasks say; plain values that travel with a
// graph.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "schedules/ids.h"

namespace unlatch {

/// Which output of the stage below each forward takes: [stage][micro-batch]. Empty: that of the
/// micro-batch of the same number.
using Sources = std::vector<std::vector<MicroBatch>>;

/// Where stages below the last take the gradient of their output from.
enum class GradientSource : std::uint8_t {
  next_stage,   ///< the backward of the next stage
  local_head,   ///< a head with a loss of its own (DGL): no gradient leaves a stage
  synthesiser,  ///< a prediction from the output, trained by the next stage's gradient (DNI)
  feedback,     ///< a fixed random map of the last stage's output error (DFA)
};

struct LocalGradients {
  GradientSource source = GradientSource::next_stage;
  bool conditional = false;  ///< a synthesiser sees the label too
  double rate = 0;           ///< learning rate of a synthesiser
  /// A backward waits for what another stage sends it.
  bool come_from_other_stage() const {
    return source == GradientSource::next_stage || source == GradientSource::feedback;
  }
  /// The heads look at the targets.
  bool see_targets() const { return source == GradientSource::local_head || conditional; }
  friend bool operator==(const LocalGradients&, const LocalGradients&) = default;
};

/// Correction of a stale gradient on its way into a server's weights: g + lambda g g (w - w_sent).
/// Zheng et al., ICML 2017 (arXiv 1609.08326).
struct Compensation {
  double lambda = 0;      ///< 0: none
  bool adaptive = false;  ///< lambda over the root of a running mean of g g
  double decay = 0;       ///< of that mean
  friend bool operator==(const Compensation&, const Compensation&) = default;
};

/// The step of a copy's own weights between two pulls of the server's (GLU of SSD-SGD):
/// w -= rate (own g + server (kept w_pre - w) + decay w), w_pre the weights of some steps before.
struct LocalStep {
  double own = 1;
  double server = 0.5;
  double rate = 0;  ///< over that of the server; 0: the number of copies
  double decay = 0;
  bool decays_pre = false;  ///< kept is 1 - rate decay instead of 1
  friend bool operator==(const LocalStep&, const LocalStep&) = default;
};

/// Only the largest entries of what a copy has gathered take part in a sum (deep gradient
/// compression with momentum correction and factor masking). Lin et al., ICLR 2018.
struct Compression {
  double ratio = 1;       ///< of the entries that are sent; 1: all, no compression
  double momentum = 0.9;  ///< of the gathering; the optimizer then has none
  double clip = 0;        ///< largest norm of a copy's gradient; 0: any
  int warm_up = 0;        ///< steps from dense to `ratio`
  int step_batches = 1;   ///< batches a step
  friend bool operator==(const Compression&, const Compression&) = default;
};

/// How several copies of a model stay one model.
struct Agreement {
  enum class Kind : std::uint8_t {
    sum,      ///< AR sums the gradients of all copies before every update
    average,  ///< copies update alone; AR averages their weights after each `period`, and the last
    server,   ///< U applies one copy's gradient to a server's weights, with which the copy goes on
    delayed,  ///< copies step alone; AR applies the sum of their gradients to a server's weights,
              ///< which they pull every `period` batches, and in every batch of the warm-up
  };
  static constexpr int no_bound = std::numeric_limits<int>::max();

  Kind kind = Kind::sum;
  int period = 1;
  int warm_up = 0;       ///< delayed: batches
  int bound = no_bound;  ///< server: batches that a copy may be ahead of the slowest
  /// server: which copy's update comes next, by stage of the model. Empty: they take turns.
  std::vector<std::vector<int>> order = {};
  bool any_order = false;  ///< server: nothing orders the updates of different copies yet
  Compensation compensation = {};
  LocalStep local_step = {};
  Compression compression = {};

  /// AR sums what the copies found; else each works on the mean of its own share of a batch.
  bool sums_gradients() const { return kind == Kind::sum || kind == Kind::delayed; }
  bool has_server() const { return kind == Kind::server || kind == Kind::delayed; }
  /// Copies meet in AR alone, which takes all of what they found.
  bool is_dense_all_reduce() const { return !has_server() && compression.ratio >= 1; }
  /// delayed: the copies go on with the server's weights after this batch.
  bool pulls(int batch) const { return batch < warm_up || batch % period == period - 1; }
  friend bool operator==(const Agreement&, const Agreement&) = default;
};

struct Learning {
  double gradient_scale = 1;  ///< on the gradient arriving at every stage but the last
  /// On the gradient of each micro-batch's loss; a schedule starts with 1/M, a batch's mean.
  double loss_scale = 1;
  bool predicts_weights = false;  ///< F reads weights as momentum may move them by its own update
  int rescaled_updates =
      0;  ///< PipeMare T1: updates with a smaller rate on delayed stages; 0: none
  /// PipeMare T2: backwards read weights moved back by the mean steps of a stage's delay, the mean
  /// forgetting to this share within it; 0: they do not.
  double drift_decay = 0;
  /// No stage updates before the gradients of a batch are whole on all stages, and all copies' sums
  /// are made; set by with_joint_updates().
  bool joint_updates = false;
  bool leaves_gradients = false;  ///< the last gradients of a stage may stay without an update
  LocalGradients local_gradients = {};
  Sources sources = {};
  Agreement agreement = {};
  friend bool operator==(const Learning&, const Learning&) = default;
};

}  // namespace unlatch
