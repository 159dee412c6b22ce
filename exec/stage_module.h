// StageModule: the mathematics of one stage, free of schedules; the seam to oneDNN and the chain.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <unordered_set>

#include "exec/parameter_math.h"
#include "exec/state_visitor.h"
#include "exec/tensor.h"
#include "models/optimizer.h"
#include "schedules/error.h"
#include "schedules/ids.h"

namespace unlatch::exec {

/// Memory a worker lends to one call at a time; grows as asked.
class Workspace {
 public:
  std::byte* at_least(std::size_t bytes);

 private:
  Tensor buffer_;
  BufferPool pool_;
};

/// What the last stage's forward finds out about one micro-batch.
struct Loss {
  double loss = 0;  ///< mean over the micro-batch, of sequences over all tokens
  int correct = 0;  ///< samples whose largest logit is the label's; 0 for a regression
  int samples = 0;  ///< tokens of sequences
};

/// Memory that a count has seen, by its address.
using SeenMemory = std::unordered_set<const std::byte*>;

/// One stage. Weights come from outside, so that one module serves all versions. Calls for
/// different lanes may overlap (F beside R); each then has its own workspace.
class StageModule {
 public:
  /// What backward needs from forward, and after backward_input what backward_weight needs; never
  /// the weights.
  struct Tape {
    virtual ~Tape() = default;
    /// Memory it keeps alive; what two layers share counts once.
    virtual std::size_t bytes() const = 0;
    /// The same without what is in `counted`, to which it adds its own: tapes of neighbouring
    /// stages may share tensors.
    virtual std::size_t bytes_beside(SeenMemory&) const { return bytes(); }
    virtual void visit_state(StateVisitor&) { throw no_state_to_visit(); }
  };
  /// One forward in training: of which part of which batch, by which dropout draws.
  struct Pass {
    /// normal: a forward that owns the batch-norm running statistics.
    /// replay: the same numbers again, statistics left alone.
    enum Statistics { normal, replay };
    Pass(Statistics s) : statistics(s) {}
    Pass(Statistics s, int batch_number, int first)
        : statistics(s), batch(batch_number), first_sample(first) {}

    Statistics statistics;
    int batch = 0;
    int first_sample = 0;  ///< of the micro-batch in its batch
  };

  virtual ~StageModule() = default;

  /// What another stage made, where this one can read it: a copy where stages are on devices of
  /// their own.
  virtual Tensor received(Tensor tensor) { return tensor; }
  /// Of weights or gradients.
  virtual Tensor copy_of(const Tensor& weights) = 0;
  /// Writes `factor` times the sum of the tensors, in their order, into all of them: weights or
  /// gradients of this stage and its copies.
  virtual void all_reduce(std::span<Tensor* const> tensors, double factor) = 0;
  virtual ParameterMath& math() = 0;

  /// Flat parameters of the stage's layers in order (see models::parameters()).
  virtual Tensor initial_weights() const = 0;
  /// A zeroed accumulator of the same size.
  virtual Tensor zero_gradient() const = 0;

  /// Bytes of weights that the first and the last stage of the model hold a copy of each: the first
  /// ones of the one, the last ones of the other. The copies start alike, and whoever takes steps
  /// gives both the sum of their gradients.
  virtual std::size_t tied_bytes() const { return 0; }

  /// Output for an input. Keeps what backward needs in *tape if tape is not null.
  virtual Tensor forward(const Tensor& weights, const Tensor& input, Pass pass,
                         std::unique_ptr<Tape>* tape, Workspace& workspace) = 0;
  /// Adds to the weight gradient and returns the gradient of the input (empty if not wanted).
  /// `gradient` is that of the output; it is multiplied by `scale` before anything else.
  virtual Tensor backward(const Tensor& weights, const Tape& tape, const Tensor& gradient,
                          double scale, bool wants_input_gradient, Tensor& weight_gradient,
                          Workspace& workspace) = 0;
  /// The first half of backward: the gradient of the input. Leaves in the tape what the second half
  /// needs and frees the rest.
  virtual Tensor backward_input(const Tensor& weights, Tape& tape, const Tensor& gradient,
                                double scale, bool wants_input_gradient, Workspace& workspace) = 0;
  /// The second half: adds to the weight gradient. Both halves give the bits of backward.
  virtual void backward_weight(const Tape& tape, Tensor& weight_gradient, Workspace& workspace) = 0;
  /// Last stage only: loss of an output against the target; *gradient becomes its gradient times
  /// `scale` (1/M, so that a batch uses its mean loss).
  virtual Loss loss(const Tensor& output, const Tensor& target, double scale, Tensor* gradient,
                    Workspace& workspace) = 0;
  /// The same for a device that knows the loss later: it then calls `report`, in the order of the
  /// tasks, and never two calls for one stage at once.
  virtual void report_loss(const Tensor& output, const Tensor& target, double scale,
                           Tensor* gradient, Workspace& workspace,
                           std::function<void(const Loss&)> report) {
    report(loss(output, target, scale, gradient, workspace));
  }
  /// Of the state of its optimizer.
  virtual std::size_t optimizer_bytes() const = 0;
  /// A copy of the weights as the optimizer's momentum alone would move them in so many updates.
  virtual Tensor predicted(const Tensor& weights, int updates, double rate) = 0;
  /// One optimizer step on the weights in place; zeroes the gradient.
  virtual void update(Tensor& weights, Tensor& gradient, double rate) = 0;

  /// What the stage keeps from task to task beside what it is passed: its optimizer's state and its
  /// running statistics. Throws RunError, as empty_tape() and a tape's visit do, on a device whose
  /// state cannot be visited.
  virtual void visit_state(StateVisitor&) { throw no_state_to_visit(); }
  /// For a visit to restore.
  virtual std::unique_ptr<Tape> empty_tape() const { throw no_state_to_visit(); }

 private:
  static RunError no_state_to_visit() {
    return RunError("the state of a stage on this device cannot be saved or restored");
  }
};

/// The data of a run: inputs for stage 0, targets for the last stage. Thread-safe and a function
/// of the micro-batch alone.
class Feed {
 public:
  virtual ~Feed() = default;
  virtual Tensor input(MicroBatch i) = 0;
  virtual Tensor target(MicroBatch i) = 0;
  /// Of a micro-batch in its batch.
  struct Share {
    int first_sample = 0;  ///< its place in the batch
    /// How much the mean loss counts beside those of the others, 1 where all are of one size: its
    /// samples over the mean of the batch's micro-batches.
    double weight = 1;
  };
  virtual Share share(MicroBatch i) const = 0;
};

}  // namespace unlatch::exec
