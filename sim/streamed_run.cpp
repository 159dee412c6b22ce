#include "sim/streamed_run.h"

#include <optional>

#include "schedules/error.h"
#include "schedules/program_facts.h"
#include "sim/task_span.h"

namespace unlatch::sim {
namespace {

/// One try at a run, which starts anew when more turns out to be in flight than was thought.
class StreamedRun {
 public:
  StreamedRun(const Schedule& schedule, const CostModel& costs, const MemorySizes& sizes)
      : schedule_(schedule),
        costs_(costs),
        table_(costs.table()),
        sizes_(sizes),
        recomputes_(ProgramFacts(schedule).has(Op::recompute)) {}

  void restart() {
    std::vector<Rank> ranks;
    for (const Stage k : up_to<Stage>(schedule_.shape().stages)) {
      ranks.push_back(schedule_.rank_of(k));
    }
    meter_.emplace(schedule_.shape(), std::move(ranks), schedule_.learning().local_gradients.source,
                   recomputes_, sizes_);
    spans_.clear();
    overflows_ = 0;
  }

  void take(const StreamedTask& task) {
    const auto number = static_cast<std::size_t>(task.number);
    if (number >= spans_.size()) spans_.resize(2 * number + 2);
    const nanoseconds length =
        table_ != nullptr ? table_->at(task.task.op, task.task.stage) : costs_.duration(task.task);
    spans_[number] = span_of(task.task, task.waits_for, spans_.data(), length, costs_, overflows_);
    meter_->add(task, spans_[number]);
  }

  RunSummary finish() {
    require(overflows_ == 0, "{}: the run would last longer than 292 years; give shorter costs",
            schedule_.specification());
    return meter_->finish();
  }

 private:
  const Schedule& schedule_;
  const CostModel& costs_;
  const CostTable* const table_;
  const MemorySizes& sizes_;
  const bool recomputes_;
  std::optional<RunMeter> meter_;
  std::vector<Span> spans_;  ///< by number
  std::int64_t overflows_ = 0;
};

}  // namespace

RunSummary run_streamed(const Schedule& schedule, const CostModel& costs, const Links& links,
                        const MemorySizes& sizes) {
  require(costs.traffic() == nullptr, "{}: transfers that share links cannot be streamed",
          schedule.specification());
  StreamedRun run(schedule, costs, sizes);
  TaskStream(schedule, links)
      .run([&run] { run.restart(); }, [&run](const StreamedTask& task) { run.take(task); });
  return run.finish();
}

}  // namespace unlatch::sim
