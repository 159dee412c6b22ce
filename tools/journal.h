// Journal: the losses of a training run as they come, for the metrics file and the terminal.
#pragma once

#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>

#include "exec/stage_runner.h"
#include "tools/train_run.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {

/// Throws RunError for a loss that is no number; `what` begins the reason.
void require_finite(double loss, std::string_view what);

/// Collects the losses of the micro-batches into one line a batch, in the order of the batches.
/// Replicas call it at the same time and may be batches apart.
class Journal {
 public:
  explicit Journal(const TrainingPlan& plan);

  /// Throws RunError, naming the batch, when training diverged.
  void add(MicroBatch i, const exec::Loss& loss);
  /// Last call.
  void finish();
  /// The file is no affair of the task that happened to write to it.
  void rethrow_failed_write() const;
  double last_loss() const { return last_loss_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// Over the micro-batches of one batch.
  struct Sum {
    double loss = 0;
    int correct = 0, samples = 0, parts = 0;
  };

  void end_batch(const Sum& sum);
  void write(double accuracy, nanoseconds since_begin);
  void remark(double accuracy, nanoseconds since_begin);

  const TrainingPlan& plan_;
  std::mutex mutex_;
  std::optional<AtomicFile> file_;
  std::exception_ptr failed_write_;
  Clock::time_point begin_ = Clock::now(), said_ = begin_;
  std::map<int, Sum> open_;  ///< batches that have begun and not been reported
  int next_batch_ = 0;       ///< to report
  double last_loss_ = 0;
};

}  // namespace unlatch::tools
