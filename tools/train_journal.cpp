#include "tools/train_journal.h"

#include <cmath>
#include <numeric>

#include "schedules/error.h"
#include "tools/json_output.h"
#include "tools/terminal.h"

namespace unlatch::tools {
namespace {

/// "2:05", "1:02:05".
std::string format_left(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  constexpr std::int64_t minute = 60, hour = 60 * minute;
  if (whole < hour) return fmt::format("{}:{:02}", whole / minute, whole % minute);
  return fmt::format("{}:{:02}:{:02}", whole / hour, whole % hour / minute, whole % minute);
}

}  // namespace

void require_finite(double loss, std::string_view what) {
  if (std::isfinite(loss)) return;
  throw RunError(
      fmt::format("training diverged: {} is {}; lower --lr (or a rate of the schedule itself)",
                  what, std::isnan(loss) ? "not a number" : "infinite"));
}

TrainJournal::TrainJournal(const TrainingPlan& plan) : plan_(plan), left_(plan.samples_from(0)) {
  if (plan.metrics_file) file_.emplace(*plan.metrics_file);
}

void TrainJournal::add(MicroBatch i, const exec::Loss& loss) {
  const std::lock_guard lock(mutex_);
  const int batch = i.value / plan_.shape.micro_batches;
  require_finite(loss.loss, fmt::format("the loss of batch {}", batch));
  const int of_batch = plan_.shape.micro_batches;
  Parts& parts = open_[batch];
  parts.losses.resize(static_cast<std::size_t>(of_batch));
  parts.losses[static_cast<std::size_t>(i.value % of_batch)] = loss.loss * loss.samples;
  parts.correct += loss.correct;
  parts.samples += loss.samples;
  ++parts.ended;
  end_whole_batches(!plan_.clips_whole_model() || plan_.device);
}

void TrainJournal::add_norm(int batch, double norm) {
  const std::lock_guard lock(mutex_);
  open_[batch].norm = norm;
  end_whole_batches(false);
}

void TrainJournal::finish() {
  end_whole_batches(true);
  if (file_) file_->close();
}

void TrainJournal::end_whole_batches(bool without_norms) {
  while (!open_.empty() && open_.begin()->first == lines_.size()) {
    const Parts& first = open_.begin()->second;
    const bool whole = first.ended == plan_.shape.micro_batches;
    if (!whole || (!without_norms && std::isnan(first.norm))) return;
    end_batch(first);
    open_.erase(open_.begin());
  }
}

void TrainJournal::end_batch(const Parts& parts) {
  const double loss = std::accumulate(parts.losses.begin(), parts.losses.end(), 0.0);
  lines_.loss.push_back(loss / parts.samples);
  lines_.accuracy.push_back(static_cast<double>(parts.correct) / parts.samples);
  const int size = plan_.batches.batch(lines_.size() - 1).size;
  samples_ += size;
  left_ -= size;
  lines_.norm.push_back(parts.norm);
  lines_.time_ms.push_back(time_ms());
  write_line(lines_.size() - 1);
  constexpr std::chrono::seconds between_remarks{2};
  const auto now = Clock::now();
  if (!progress_is_shown() || now - said_ < between_remarks) return;
  said_ = now;
  remark(std::chrono::duration<double>(now - begin_).count());
}

void TrainJournal::remark(double seconds) const {
  const double rate = static_cast<double>(samples_) / seconds;
  say(fmt::format("batch {} of {}: loss {:.4f}, accuracy {:.1f}%, {:.0f} samples/s, {} left",
                  lines_.size(), plan_.shape.batches, lines_.loss.back(),
                  lines_.accuracy.back() * 100, rate,
                  format_left(static_cast<double>(left_) / rate)));
}

void TrainJournal::write_line(int batch) {
  if (!file_) return;
  const auto at = static_cast<std::size_t>(batch);
  Json line{{"step", batch + 1},
            {"batch", batch},
            {"epoch", plan_.batches.batch(batch).epoch},
            {"loss", lines_.loss[at]},
            {"accuracy", lines_.accuracy[at]},
            {"lr", plan_.rate_of(batch)},
            {"gradient_norm", number_json(lines_.norm[at])},
            {"time_ms", lines_.time_ms[at]},
            {"simulated_ms", nullptr}};
  if (plan_.clock) line["simulated_ms"] = to_ms(plan_.clock->losses[at]);
  try {
    file_->add(line.dump());
  } catch (const Error&) {
    failed_write_ = std::current_exception();
    throw;
  }
}

double TrainJournal::time_ms() const {
  return earlier_ms_ + to_ms(std::chrono::duration_cast<nanoseconds>(Clock::now() - begin_));
}

void TrainJournal::visit_state(exec::StateVisitor& visitor) {
  const exec::StateVisitor::Scope scope(visitor, "journal");
  double time = time_ms();
  visitor.value(time);
  visitor.reals_of_any_size("loss", lines_.loss);
  visitor.reals_of_any_size("accuracy", lines_.accuracy);
  visitor.reals_of_any_size("norm", lines_.norm);
  visitor.reals_of_any_size("time_ms", lines_.time_ms);
  visit_open(visitor);
  if (!visitor.restores()) return;
  earlier_ms_ = time;
  begin_ = Clock::now();
  left_ = plan_.samples_from(lines_.size());
  for (int batch = 0; batch < lines_.size(); ++batch) write_line(batch);
}

void TrainJournal::visit_open(exec::StateVisitor& visitor) {
  std::vector<std::int64_t> batches;
  for (const auto& [batch, parts] : open_) batches.push_back(batch);
  visitor.numbers(batches);
  for (const std::int64_t batch : batches) {
    const exec::StateVisitor::Scope of_batch(visitor, fmt::format("batch {}", batch));
    Parts& parts = open_[static_cast<int>(batch)];
    visitor.reals_of_any_size("losses", parts.losses);
    visitor.number(parts.correct);
    visitor.number(parts.samples);
    visitor.number(parts.ended);
    visitor.value(parts.norm);
  }
}

}  // namespace unlatch::tools
