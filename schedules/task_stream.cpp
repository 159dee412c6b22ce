#include "schedules/task_stream.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "schedules/builder.h"
#include "schedules/error.h"

namespace unlatch {
namespace {

constexpr std::int32_t none = -1;

/// Tasks wait here, in their order, until all is known that later tasks say about them: whether R
/// rebuilds a tape, who reads an old version last, whether a message takes a link.
class WaitingLine final : public TaskTaker {
 public:
  WaitingLine(const Shape& shape, const ProgramFacts& facts, const Links& links, std::size_t length,
              const std::function<void(const StreamedTask&)>& give)
      : shape_(shape),
        facts_(facts),
        links_(links),
        length_(length),
        give_(give),
        newest_send_(2 * static_cast<std::size_t>(shape_.stages), none) {}

  void look_at(const ProgramRunner& runner) { runner_ = &runner; }

  void take(std::int32_t slot, std::span<const Edge> waited_for) override {
    if (static_cast<std::size_t>(slot) >= states_.size()) states_.resize(slot + 1);
    states_[slot] = {};
    for (const Edge edge : waited_for) {
      if (takes_link(edge, slot)) note_send(edge.from().value);
    }
    edges_.insert(edges_.end(), waited_for.begin(), waited_for.end());
    rows_.push_back({slot, static_cast<std::int32_t>(waited_for.size())});
    if (rows_.size() > length_) let_go();
  }
  bool is_done_with(std::int32_t slot) const override { return states_[slot].gone; }
  void each_in_use(const std::function<void(std::int32_t)>& visit) const override {
    for (const Row& row : rows_) visit(row.slot);
    for (const Edge edge : edges_) visit(edge.from().value);
    for (const std::int32_t send : newest_send_) visit(send);
    for (const std::int32_t send : unmet_sends_) visit(send);
  }
  void finish() {
    while (!rows_.empty()) let_go();
  }

 private:
  struct Row {
    std::int32_t slot = 0;
    std::int32_t edges = 0;
  };
  struct State {
    bool gone = false;   ///< has left the line
    bool sends = false;  ///< its output takes a link
  };

  const Task& task(std::int32_t slot) const { return runner_->tasks[slot]; }
  Rank rank(std::int32_t slot) const { return facts_.lanes[task(slot).lane].rank; }

  bool takes_link(Edge edge, std::int32_t to) const {
    const bool forward = edge.kind() == EdgeKind::activation;
    if (!forward && edge.kind() != EdgeKind::gradient) return false;
    const std::vector<bool>& links = forward ? links_.activation : links_.gradient;
    if (links.empty() || rank(edge.from().value) == rank(to)) return false;
    const Stage from = task(edge.from().value).stage;
    const std::size_t boundary = forward ? from.value : from.value - 1;
    return boundary < links.size() && links[boundary];
  }

  void note_send(std::int32_t producer) {
    State& state = states_[producer];
    if (state.gone && !state.sends) throw TasksInFlight::Forgotten{};
    state.sends = true;
  }

  /// A task has number 2 slot, the message behind it the number after that.
  void let_go() {
    const Row row = rows_.front();
    waits_for_.clear();
    for (int e = 0; e < row.edges; ++e) {
      const Edge edge = edges_[e];
      const int number = 2 * edge.from().value + (takes_link(edge, row.slot) ? 1 : 0);
      waits_for_.emplace_back(TaskId{number}, edge.kind());
    }
    if (task(row.slot).op == Op::barrier) meet_sends(row);
    give_({task(row.slot), rank(row.slot), 2 * row.slot, waits_for_});
    edges_.erase(edges_.begin(), edges_.begin() + row.edges);
    rows_.pop_front();
    if (states_[row.slot].sends) send(row.slot);
    states_[row.slot].gone = true;
  }

  /// A barrier waits for the messages of the lanes that it waits for.
  void meet_sends(const Row& row) {
    std::vector<bool> meets(facts_.lanes.size(), false);
    for (int e = 0; e < row.edges; ++e) {
      if (edges_[e].kind() == EdgeKind::barrier) meets[task(edges_[e].from().value).lane] = true;
    }
    std::erase_if(unmet_sends_, [&](std::int32_t producer) {
      const bool met = meets[task(producer).lane];
      if (met) waits_for_.emplace_back(TaskId{2 * producer + 1}, EdgeKind::barrier);
      return met;
    });
  }

  void send(std::int32_t producer) {
    Task message = task(producer);
    const bool forward = (message.op == Op::forward || message.op == Op::push_forward) &&
                         !shape_.is_last(message.stage);
    message.op = forward ? Op::send_forward : Op::send_backward;
    message.version = 0;
    message.flags = 0;
    std::int32_t& newest = newest_send_[2 * message.stage.value + (forward ? 1 : 0)];
    waits_for_.clear();
    if (newest != none) waits_for_.emplace_back(TaskId{2 * newest + 1}, EdgeKind::order);
    waits_for_.emplace_back(TaskId{2 * producer}, EdgeKind::local);
    newest = producer;
    if (facts_.barriers > 0) unmet_sends_.push_back(producer);
    give_({message, rank(producer), 2 * producer + 1, waits_for_});
  }

  const Shape shape_;
  const ProgramFacts& facts_;
  const Links& links_;
  const std::size_t length_;
  const std::function<void(const StreamedTask&)>& give_;
  const ProgramRunner* runner_ = nullptr;
  std::deque<Row> rows_;
  std::deque<Edge> edges_;                 ///< of all rows
  std::vector<State> states_;              ///< by slot
  std::vector<std::int32_t> newest_send_;  ///< by stage and direction: its producer
  std::vector<std::int32_t> unmet_sends_;  ///< producers since the last barrier
  std::vector<Edge> waits_for_;
};

}  // namespace

TaskStream::TaskStream(const Schedule& schedule, Links links, int first_length)
    : schedule_(schedule), links_(std::move(links)), first_length_(first_length) {
  require(!is_served(schedule.shape(), schedule.learning()),
          "{}: a server's updates come in the order of simulated time, which is found with all "
          "tasks at hand; they cannot be streamed",
          schedule.specification());
  const auto any = [](const std::vector<bool>& links_of) {
    return std::ranges::find(links_of, true) != links_of.end();
  };
  const bool server = schedule.shape().copies > 1 && schedule.learning().agreement.has_server();
  require(!server || (!any(links_.push) && !any(links_.pull)),
          "{}: messages to and from a server cannot be streamed", schedule.specification());
}

void TaskStream::run(const std::function<void()>& restart,
                     const std::function<void(const StreamedTask&)>& take) const {
  const ProgramFacts facts(schedule_);
  if (!facts.stages_exist) schedule_.build();  // says what is wrong
  const std::int64_t all = schedule_.shape().all_micro_batches();
  std::int64_t length = first_length_;
  std::int64_t margin = 8 + facts.most_capacity;
  while (true) {
    restart();
    try {
      WaitingLine line(schedule_.shape(), facts, links_, static_cast<std::size_t>(length), take);
      ProgramRunner runner(schedule_, facts, static_cast<int>(std::min(margin, all)), &line);
      line.look_at(runner);
      if (!runner.run()) {
        fail("{}: {}", schedule_.specification(), schedule_.violations().front().message);
      }
      line.finish();
      return;
    } catch (const TasksInFlight::Forgotten&) {
      // With room for everything nothing is forgotten.
      if (length > facts.tasks + facts.barriers && margin >= all) throw;
      length *= 8;
      margin *= 8;
    }
  }
}

}  // namespace unlatch
