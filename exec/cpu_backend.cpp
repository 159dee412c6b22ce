#include "exec/cpu_backend.h"

#include <algorithm>
#include <chrono>

#include "exec/dnn_threads.h"
#include "exec/task_failure.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

// A command is a slot or task number below a kind; both are below 2^28.
constexpr std::uint32_t wait_for_end = 0;
constexpr std::uint32_t wait_for_start = 1;
constexpr std::uint32_t run_task = 2;
constexpr int kind_shift = 30;
constexpr std::uint32_t number_mask = (1U << kind_shift) - 1;

std::uint32_t command(std::uint32_t kind, std::uint32_t number) {
  return kind << kind_shift | number;
}

/// A tenth of a millisecond of polling or two: a hand-over between running workers takes well under
/// a microsecond, a sleeping one costs 25 to 45 to wake.
constexpr int polls_before_sleep = 4000;
/// A worker helps out elsewhere after 20 microseconds or so without work of its own: sooner, it
/// would drag lanes away from a worker that is about to go on with them, and their data with them.
constexpr int polls_before_helping = 1000;

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

/// Lanes that carry real work; links and barriers cost nothing here.
int working_lanes(const TaskGraph& graph) {
  return static_cast<int>(
      std::count_if(graph.lanes().begin(), graph.lanes().end(), [](const Lane& lane) {
        return lane.engine == Engine::compute || lane.engine == Engine::recompute;
      }));
}

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

int CpuBackend::default_workers(const TaskGraph& graph) {
  return std::min(working_lanes(graph), cores());
}

bool CpuBackend::lanes_share_a_worker(const TaskGraph& graph, int workers) {
  return workers < working_lanes(graph);
}

CpuBackend::CpuBackend(const TaskGraph& graph, TaskRunner& runner, const CpuOptions& options)
    : graph_(graph), runner_(runner), cancel_(options.cancel), lanes_(graph.lanes().size()) {
  require(options.workers >= 0, "a run needs at least one worker thread, not {}", options.workers);
  workers_ = options.workers > 0 ? std::min(options.workers, working_lanes(graph))
                                 : default_workers(graph);
  make_queues();
  make_groups();
  spins_ = workers_ <= cores() ? polls_before_sleep : 0;
}

void CpuBackend::make_queues() {
  std::vector<std::uint32_t> commands(lanes_.size(), 0), tasks(lanes_.size(), 0);
  for (const TaskId id : graph_.ids()) {
    const Task& task = graph_.task(id);
    ++tasks[task.lane];
    commands[task.lane] += 1 + static_cast<std::uint32_t>(graph_.edges_into(id).size());
  }
  std::uint32_t slot = 0;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane].commands = std::make_unique<std::uint32_t[]>(commands[lane]);
    lanes_[lane].first_slot = slot;
    slot += tasks[lane];
  }
  slot_of_task_.resize(graph_.size());
  events_ = std::make_unique<Event[]>(graph_.size());
}

void CpuBackend::make_groups() {
  const bool by_rank = lanes_share_a_worker(graph_, workers_);
  std::vector<std::vector<int>> groups;
  for (int lane = 0; lane < static_cast<int>(lanes_.size()); ++lane) {
    const Lane& facts = graph_.lanes()[lane];
    const bool opens_group = facts.engine == Engine::compute ||
                             (facts.engine == Engine::recompute && !by_rank) || groups.empty();
    if (opens_group) groups.emplace_back();
    groups.back().push_back(lane);
  }
  groups_ = std::vector<Group>(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) groups_[g].lanes = std::move(groups[g]);
}

// ---- launching ---------------------------------------------------------------------------------

void CpuBackend::push(LaneQueue& lane, std::uint32_t command) {
  lane.commands[lane.written++] = command;
}

void CpuBackend::wait_end(LaneId lane, TaskId task) {
  push(lanes_[lane.value], command(wait_for_end, slot_of_task_[task.value]));
}

void CpuBackend::wait_start(LaneId lane, TaskId task) {
  push(lanes_[lane.value], command(wait_for_start, slot_of_task_[task.value]));
}

void CpuBackend::launch(TaskId task) {
  LaneQueue& lane = lanes_[graph_.task(task).lane];
  slot_of_task_[task.value] = lane.first_slot + lane.launched++;
  push(lane, command(run_task, static_cast<std::uint32_t>(task.value)));
}

Timeline CpuBackend::synchronize() {
  begin_ = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;  // join at the end of the scope, also when one cannot start
    for (int w = 0; w < workers_; ++w) threads.emplace_back([this, w] { work(w); });
  }
  if (failure_) std::rethrow_exception(failure_);
  if (stopped_) throw Cancelled();
  Timeline timeline{LongArray<Span>(graph_.size())};
  for (const TaskId id : graph_.ids()) {
    const Event& event = events_[slot_of_task_[id.value]];
    timeline[id] = {nanoseconds(event.start.load(std::memory_order_relaxed) - 1),
                    nanoseconds(event.end.load(std::memory_order_relaxed) - 1)};
  }
  return timeline;
}

// ---- working -----------------------------------------------------------------------------------

void CpuBackend::work(int worker) {
  use_one_maths_thread();
  Workspace workspace;
  std::int64_t now = 0;  // 0: the worker has waited, so the clock must be read afresh
  int idle = 0;
  bool helping = false;
  while (!stopped_.load(std::memory_order_relaxed)) {
    bool progress = false;
    for (std::size_t g = worker; g < groups_.size(); g += workers_) {
      progress = serve(groups_[g], workspace, now) || progress;
    }
    if (!progress && (helping || idle > polls_before_helping)) {
      // Stays a helper as long as there is something to help with: the others may not be running.
      helping = help(workspace, now);
      progress = helping;
    }
    if (progress) {
      idle = 0;
      continue;
    }
    now = 0;
    if (all_done()) break;
    if (++idle < spins_) {
      pause();
    } else {
      sleep_until_change();
      idle = polls_before_sleep;  // help at once, then sleep again
    }
  }
  wake_all();
}

bool CpuBackend::help(Workspace& workspace, std::int64_t& now) {
  return std::any_of(groups_.begin(), groups_.end(),
                     [&](Group& group) { return serve(group, workspace, now); });
}

bool CpuBackend::serve(Group& group, Workspace& workspace, std::int64_t& now) {
  if (!can_go(group) || group.held.exchange(true, std::memory_order_acquire)) return false;
  bool progress = false;
  for (const int lane : group.lanes) progress = advance(lanes_[lane], workspace, now) || progress;
  group.held.store(false, std::memory_order_release);
  return progress;
}

bool CpuBackend::advance(LaneQueue& lane, Workspace& workspace, std::int64_t& now) {
  std::uint32_t next = lane.next.load(std::memory_order_relaxed);
  const std::uint32_t first = next;
  for (; next < lane.written && !stopped_.load(std::memory_order_relaxed); ++next) {
    const std::uint32_t command = lane.commands[next];
    if (command >> kind_shift == run_task) {
      execute(TaskId{static_cast<std::int32_t>(command & number_mask)},
              lane.first_slot + lane.run++, workspace, now);
    } else if (const std::int64_t over = over_since(command); over != 0) {
      if (now != 0) now = std::max(now, over);  // `now` may be a little older than the event
    } else {
      break;
    }
  }
  lane.next.store(next, std::memory_order_release);
  return next != first;
}

/// When the event that a command waits for happened; 0 while it has not.
std::int64_t CpuBackend::over_since(std::uint32_t command) const {
  const Event& event = events_[command & number_mask];
  return command >> kind_shift == wait_for_end ? event.end.load(std::memory_order_seq_cst)
                                               : event.start.load(std::memory_order_seq_cst);
}

void CpuBackend::execute(TaskId id, std::uint32_t slot, Workspace& workspace, std::int64_t& now) {
  Event& event = events_[slot];
  const Task& task = graph_.task(id);
  if (now == 0) now = clock();
  event.start.store(now, std::memory_order_release);
  try {
    if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed)) return stop(nullptr);
    if (is_work(task.op) || task.has(learns)) runner_.run(task, workspace);
  } catch (const std::exception& error) {
    return stop(std::make_exception_ptr(task_failure(graph_, task, error)));
  }
  if (is_work(task.op)) now = clock();
  event.end.store(now, std::memory_order_seq_cst);
  wake_sleepers();
}

bool CpuBackend::can_go(const Group& group) const {
  return std::any_of(group.lanes.begin(), group.lanes.end(), [this](int index) {
    const LaneQueue& lane = lanes_[index];
    const std::uint32_t next = lane.next.load(std::memory_order_acquire);
    if (next >= lane.written) return false;
    const std::uint32_t command = lane.commands[next];
    return command >> kind_shift == run_task || over_since(command) != 0;
  });
}

bool CpuBackend::anything_can_go() const {
  return std::any_of(groups_.begin(), groups_.end(), [this](const Group& group) {
    return !group.held.load(std::memory_order_seq_cst) && can_go(group);
  });
}

bool CpuBackend::all_done() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const LaneQueue& lane) {
    return lane.next.load(std::memory_order_acquire) == lane.written;
  });
}

// ---- sleeping ----------------------------------------------------------------------------------

/// Whoever changes something does it before reading sleepers_, whoever sleeps announces itself
/// before looking once more (both sequentially consistent): no change is slept through.
void CpuBackend::sleep_until_change() {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t epoch = epoch_.load(std::memory_order_seq_cst);
  if (!anything_can_go() && !all_done() && !stopped_.load()) epoch_.wait(epoch);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void CpuBackend::wake_sleepers() {
  if (sleepers_.load(std::memory_order_seq_cst) > 0) wake_all();
}

void CpuBackend::wake_all() {
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  epoch_.notify_all();
}

/// Null for a cancellation.
void CpuBackend::stop(std::exception_ptr failure) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!stopped_) failure_ = failure;
    stopped_ = true;
  }
  wake_all();
}

std::int64_t CpuBackend::clock() const {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now() - begin_)
             .count() +
         1;
}

}  // namespace unlatch::exec
