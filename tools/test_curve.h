// TestCurve: how well a network does on the test data as its training goes on.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "exec/evaluate.h"
#include "exec/state_visitor.h"
#include "exec/tensor.h"
#include "schedules/graph.h"
#include "tools/train_run.h"

namespace unlatch::tools {

/// Weights and statistics of the stages after one batch.
struct CurveSnapshot {
  std::vector<std::vector<float>> weights, statistics;  ///< by stage
  int missing = 0;                                      ///< stages
};

/// What a run has of its curve between two tasks.
struct CurveState {
  std::vector<TestPoint> points;
  std::map<int, CurveSnapshot> open;  ///< by batch, which some stages have not learned from yet

  void visit(exec::StateVisitor& visitor);
};

/// Takes every stage's weights as its update of a chosen batch leaves them, and evaluates them
/// together on a thread of its own: the same figures whatever the timing. Where training is faster,
/// it waits for the evaluation.
class TestCurve {
 public:
  /// At the points of the plan, once all stages have learned from so many batches. `plan` must
  /// outlive this.
  TestCurve(const TrainingPlan& plan, const TaskGraph& graph);
  ~TestCurve();
  TestCurve(const TestCurve&) = delete;
  TestCurve& operator=(const TestCurve&) = delete;

  /// What the executor observes: stage k of the first copy after its update number `version`.
  /// Thread-safe. Throws what an evaluation has thrown.
  void note(Stage k, int version, const exec::Tensor& weights, std::span<const float> statistics);
  /// Once all points that are ready are evaluated. While no task runs.
  void visit_state(exec::StateVisitor& visitor);
  /// Waits for the last evaluation. Throws what one has thrown, and RunError, naming the batch, for
  /// a loss that is no number. Call when the run has ended.
  std::vector<TestPoint> finish();

 private:
  void evaluate_ready();
  TestPoint evaluated(int batch, const CurveSnapshot& snapshot) const;

  const TrainingPlan& plan_;
  std::vector<std::vector<int>> wanted_;  ///< [stage][version]: the batch of a point, or -1
  std::mutex mutex_;
  std::condition_variable changed_;
  CurveState state_;
  std::deque<std::pair<int, CurveSnapshot>> ready_;  ///< all stages are there; batches ascend
  std::exception_ptr failure_;
  bool evaluates_ = false;  ///< now
  bool ended_ = false;      ///< no more updates come
  std::thread evaluator_;
};

}  // namespace unlatch::tools
