// TrainJournal: the losses of a training run, batch by batch, for --metrics and the terminal.
#pragma once

#include <chrono>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "exec/state_visitor.h"
#include "tools/train_run.h"
#include "traces/line_log.h"

namespace unlatch::tools {

/// Throws RunError, which tells to lower the rate, unless the loss is a number.
void require_finite(double loss, std::string_view what);

/// Collects the losses of the micro-batches into one line a batch, in the order of the batches.
/// Replicas call it at the same time and may be batches apart.
class TrainJournal {
 public:
  explicit TrainJournal(const TrainingPlan& plan);

  /// Throws RunError for a loss that is no number.
  void add(MicroBatch i, const exec::Loss& loss);
  /// Of its gradient before it was clipped; comes after the losses of the batch.
  void add_norm(int batch, double norm);
  void finish();
  /// The file is no affair of the task that happened to write to it.
  void rethrow_failed_write() const {
    if (failed_write_) std::rethrow_exception(failed_write_);
  }
  /// Of each batch, the mean over its samples.
  const std::vector<double>& losses() const& { return lines_.loss; }

  /// All lines until now, written again where they are restored, and the batches that have begun.
  /// Time then goes on where it was. While no task runs.
  void visit_state(exec::StateVisitor& visitor);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  /// The micro-batches of one batch; ranks end theirs in any order.
  struct Parts {
    std::vector<double> losses;  ///< each the sum over its samples
    int correct = 0, samples = 0, ended = 0;
    double norm = unknown;
  };
  /// A value a batch.
  struct Lines {
    std::vector<double> loss, accuracy, norm, time_ms;
    int size() const { return static_cast<int>(loss.size()); }
  };

  /// Ends all batches, in order, of which everything is there.
  void end_whole_batches(bool without_norms);
  void end_batch(const Parts& parts);
  void visit_open(exec::StateVisitor& visitor);
  void write_line(int batch);
  void remark(double seconds) const;
  double time_ms() const;

  const TrainingPlan& plan_;
  std::mutex mutex_;
  std::optional<LineLog> file_;
  std::exception_ptr failed_write_;
  Clock::time_point begin_ = Clock::now(), said_ = begin_;
  double earlier_ms_ = 0;      ///< before this run, up to where it went on from
  std::map<int, Parts> open_;  ///< batches that have begun and are not over
  Lines lines_;
  std::int64_t samples_ = 0;  ///< of this run, not of the one that it goes on from
  std::int64_t left_;         ///< samples
};

}  // namespace unlatch::tools
