#include "tools/journal.h"

#include <cmath>

#include "schedules/error.h"
#include "tools/json_output.h"
#include "tools/terminal.h"

namespace unlatch::tools {
namespace {

/// "2:05", "1:02:05".
std::string format_left(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  constexpr std::int64_t minute = 60, hour = 60 * minute;
  if (whole >= hour) {
    return fmt::format("{}:{:02}:{:02}", whole / hour, whole % hour / minute, whole % minute);
  }
  return fmt::format("{}:{:02}", whole / minute, whole % minute);
}

}  // namespace

void require_finite(double loss, std::string_view what) {
  if (std::isfinite(loss)) return;
  throw RunError(
      fmt::format("training diverged: {} is {}; lower --lr (or a rate of the schedule itself)",
                  what, std::isnan(loss) ? "not a number" : "infinite"));
}

Journal::Journal(const TrainingPlan& plan) : plan_(plan) {
  if (plan.metrics_file) file_.emplace(*plan.metrics_file);
}

void Journal::add(MicroBatch i, const exec::Loss& loss) {
  const std::lock_guard lock(mutex_);
  const int batch = i.value / plan_.shape.micro_batches;
  require_finite(loss.loss, fmt::format("the loss of batch {}", batch));
  Sum& sum = open_[batch];
  sum.loss += loss.loss * loss.samples;
  sum.correct += loss.correct;
  sum.samples += loss.samples;
  ++sum.parts;
  while (!open_.empty() && open_.begin()->first == next_batch_ &&
         open_.begin()->second.parts == plan_.shape.micro_batches) {
    end_batch(open_.begin()->second);
    open_.erase(open_.begin());
    ++next_batch_;
  }
}

void Journal::finish() {
  if (file_) file_->commit();
}

void Journal::rethrow_failed_write() const {
  if (failed_write_) std::rethrow_exception(failed_write_);
}

void Journal::end_batch(const Sum& sum) {
  last_loss_ = sum.loss / sum.samples;
  const double accuracy = static_cast<double>(sum.correct) / sum.samples;
  const auto now = Clock::now();
  const auto since_begin = std::chrono::duration_cast<nanoseconds>(now - begin_);
  if (file_) write(accuracy, since_begin);
  constexpr std::chrono::seconds between_remarks{2};
  if (!progress_is_shown() || now - said_ < between_remarks) return;
  said_ = now;
  remark(accuracy, since_begin);
}

void Journal::write(double accuracy, nanoseconds since_begin) {
  Json line{{"step", next_batch_ + 1},
            {"batch", next_batch_},
            {"epoch", next_batch_ / plan_.batches_per_epoch},
            {"loss", last_loss_},
            {"accuracy", accuracy},
            {"time_ms", to_ms(since_begin)},
            {"simulated_ms", nullptr}};
  if (plan_.clock) {
    line["simulated_ms"] = to_ms(plan_.clock->losses[static_cast<std::size_t>(next_batch_)]);
  }
  try {
    *file_ << line.dump() << '\n';
  } catch (const Error&) {
    failed_write_ = std::current_exception();
    throw;
  }
}

void Journal::remark(double accuracy, nanoseconds since_begin) {
  const int done = next_batch_ + 1;
  const double seconds = to_ms(since_begin) / 1e3;
  say(fmt::format("batch {} of {}: loss {:.4f}, accuracy {:.1f}%, {:.0f} samples/s, {} left", done,
                  plan_.shape.batches, last_loss_, accuracy * 100,
                  done * static_cast<double>(plan_.batch_size) / seconds,
                  format_left((plan_.shape.batches - done) * seconds / done)));
}

}  // namespace unlatch::tools
