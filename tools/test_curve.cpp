#include "tools/test_curve.h"

#include <algorithm>

#include "models/tied_head.h"
#include "schedules/error.h"
#include "tools/train_journal.h"

namespace unlatch::tools {
namespace {

/// Versions of one stage by the batch that they have learned from last.
std::vector<int> batches_of_updates(const TaskGraph& graph, Stage k) {
  std::vector<int> batches;
  const bool served = is_served(graph.shape(), graph.learning());
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    if (task.op != Op::update) continue;
    if (served ? graph.shape().model_stage(task.stage) != k : task.stage != k) continue;
    // A server takes those of all copies, one by one.
    const int taken = static_cast<int>(batches.size()) + 1;
    batches.push_back(served ? taken / graph.shape().copies - 1 : batch_of(graph, task));
  }
  return batches;
}

/// The update that first brings a stage to each of the points; a stage that learns from fewer
/// batches has fewer.
std::vector<int> batches_of_points(const std::vector<int>& updates,
                                   const std::vector<int>& points) {
  std::vector<int> wanted(updates.size(), -1);
  auto point = points.begin();
  for (std::size_t v = 0; v < updates.size(); ++v) {
    const int learned = updates[v] + 1;
    if (point == points.end() || learned < *point) continue;
    wanted[v] = *point - 1;
    point = std::upper_bound(point, points.end(), learned);
  }
  return wanted;
}

void visit_point(exec::StateVisitor& visitor, TestPoint& point) {
  visitor.number(point.batch);
  visitor.value(point.test.accuracy);
  visitor.value(point.test.loss);
  visitor.number(point.test.correct);
  visitor.number(point.test.samples);
}

/// Stages that have not come so far have nothing there.
void visit_snapshot(exec::StateVisitor& visitor, CurveSnapshot& snapshot) {
  visitor.number(snapshot.missing);
  std::size_t stages = snapshot.weights.size();
  visitor.number(stages);
  snapshot.weights.resize(stages);
  snapshot.statistics.resize(stages);
  for (std::size_t k = 0; k < stages; ++k) {
    const exec::StateVisitor::Scope stage(visitor, fmt::format("stage {}", k));
    visitor.reals_of_any_size("weights", snapshot.weights[k]);
    visitor.reals_of_any_size("statistics", snapshot.statistics[k]);
  }
}

}  // namespace

void CurveState::visit(exec::StateVisitor& visitor) {
  const exec::StateVisitor::Scope scope(visitor, "test curve");
  std::size_t size = points.size();
  visitor.number(size);
  points.resize(size);
  for (TestPoint& point : points) visit_point(visitor, point);
  std::vector<std::int64_t> batches;
  for (const auto& [batch, snapshot] : open) batches.push_back(batch);
  visitor.numbers(batches);
  for (const std::int64_t batch : batches) {
    const exec::StateVisitor::Scope of_batch(visitor, fmt::format("batch {}", batch));
    visit_snapshot(visitor, open[static_cast<int>(batch)]);
  }
}

TestCurve::TestCurve(const TrainingPlan& plan, const TaskGraph& graph) : plan_(plan) {
  for (const Stage k : up_to<Stage>(graph.shape().stages_a_copy())) {
    wanted_.push_back(batches_of_points(batches_of_updates(graph, k), *plan.test_points));
  }
  evaluator_ = std::thread([this] { evaluate_ready(); });
}

TestCurve::~TestCurve() {
  if (!evaluator_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    ready_.clear();
  }
  changed_.notify_all();
  evaluator_.join();
}

void TestCurve::note(Stage k, int version, const exec::Tensor& weights,
                     std::span<const float> statistics) {
  const auto stage = static_cast<std::size_t>(k.value);
  if (stage >= wanted_.size()) return;  // of another copy
  const int batch = wanted_[stage].at(static_cast<std::size_t>(version));
  if (batch < 0) return;
  const std::span<const float> values = weights.as<float>();
  std::unique_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  const auto [place, added] = state_.open.try_emplace(batch);
  CurveSnapshot& snapshot = place->second;
  if (added) {
    snapshot.weights.resize(wanted_.size());
    snapshot.statistics.resize(wanted_.size());
    snapshot.missing = static_cast<int>(wanted_.size());
  }
  snapshot.weights[stage].assign(values.begin(), values.end());
  snapshot.statistics[stage].assign(statistics.begin(), statistics.end());
  if (--snapshot.missing > 0) return;
  constexpr std::size_t most_ready = 2;
  changed_.wait(lock, [&] { return ready_.size() < most_ready || failure_; });
  ready_.emplace_back(batch, std::move(snapshot));
  state_.open.erase(batch);
  changed_.notify_all();
}

std::vector<TestPoint> TestCurve::finish() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  evaluator_.join();
  if (failure_) std::rethrow_exception(failure_);
  return state_.points;
}

void TestCurve::evaluate_ready() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ended_ || !ready_.empty(); });
    if (ready_.empty()) return;
    const auto [batch, snapshot] = std::move(ready_.front());
    ready_.pop_front();
    evaluates_ = true;
    changed_.notify_all();
    lock.unlock();
    std::exception_ptr failure;
    TestPoint point;
    try {
      point = evaluated(batch, snapshot);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    evaluates_ = false;
    if (failure) {
      failure_ = failure;
      changed_.notify_all();
      return;
    }
    state_.points.push_back(point);
    changed_.notify_all();
  }
}

void TestCurve::visit_state(exec::StateVisitor& visitor) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || (ready_.empty() && !evaluates_); });
  if (failure_) std::rethrow_exception(failure_);
  state_.visit(visitor);
}

TestPoint TestCurve::evaluated(int batch, const CurveSnapshot& snapshot) const {
  std::vector<float> weights, statistics;
  for (std::size_t k = 0; k < snapshot.weights.size(); ++k) {
    weights.insert(weights.end(), snapshot.weights[k].begin(), snapshot.weights[k].end());
    statistics.insert(statistics.end(), snapshot.statistics[k].begin(),
                      snapshot.statistics[k].end());
  }
  models::drop_copied_table(plan_.model, weights);
  const exec::Evaluation test =
      exec::evaluate(plan_.model, weights, statistics, plan_.data.test, {.threads = 1});
  require_finite(test.loss, fmt::format("the test loss after step {}", batch + 1));
  return {.batch = batch, .test = test};
}

}  // namespace unlatch::tools
