#include "traces/queues.h"

namespace unlatch {
namespace {

std::int64_t size_of(const std::vector<std::int64_t>& sizes, Stage k) {
  return sizes.empty() ? 0 : sizes[k.value];
}

}  // namespace

Queues::Queues(const TaskGraph& graph, const MemorySizes& sizes) : graph_(graph), sizes_(sizes) {
  for (const std::vector<MicroBatch>& of_stage : graph.learning().sources) {
    std::vector<int>& takers = takers_.emplace_back(graph.shape().all_micro_batches(), 0);
    for (const MicroBatch i : of_stage) ++takers[i.value];
  }
}

std::vector<QueueChange> Queues::taken(const Task& task) {
  const Stage k = task.stage;
  std::vector<QueueChange> changes;
  switch (task.op) {
    case Op::forward:
      if (!graph_.shape().is_first(k)) {
        const int from = graph_.source(k, task.micro_batch).value;
        const bool is_last_taker = takers_.empty() || --takers_[k.value][from] == 0;
        if (is_last_taker) changes.push_back(output(k - 1, -1));
      }
      break;
    case Op::backward:
    case Op::backward_input:
      if (!keeps_output_for_head(k)) {
        changes.push_back(gradient(k, -1));
      } else if (source() == GradientSource::local_head) {
        changes.push_back(output(k, -1));
      }
      break;
    case Op::pop_backward:
      if (source() == GradientSource::synthesiser && keeps_output_for_head(k)) {
        changes.push_back(gradient(k, -1));
        changes.push_back(output(k, -1));
      }
      break;
    default:
      break;
  }
  return changes;
}

std::vector<QueueChange> Queues::left(const Task& task) const {
  const Stage k = task.stage;
  std::vector<QueueChange> changes;
  switch (task.op) {
    case Op::forward:
      if (!graph_.shape().is_last(k)) {
        if (keeps_output_for_head(k)) changes.push_back(output(k, 1));
        if (is_wanted_above(k, task.micro_batch)) changes.push_back(output(k, 1));
        break;
      }
      if (has_feedback()) {
        const int first = k.value - graph_.shape().model_stage(k).value;
        for (Stage below{first}; below < k; below = below + 1) {
          changes.push_back(gradient(below, 1));
        }
      }
      changes.push_back(gradient(k, 1));
      break;
    case Op::backward:
    case Op::backward_input:
      if (sends_gradient(k)) changes.push_back(gradient(k - 1, 1));
      break;
    default:
      break;
  }
  return changes;
}

bool Queues::keeps_output_for_head(Stage k) const {
  return !graph_.shape().is_last(k) &&
         (source() == GradientSource::local_head || source() == GradientSource::synthesiser);
}

bool Queues::sends_gradient(Stage k) const {
  return !graph_.shape().is_first(k) && !has_feedback() && source() != GradientSource::local_head;
}

bool Queues::is_wanted_above(Stage k, MicroBatch i) const {
  return takers_.empty() || takers_[k.value + 1][i.value] > 0;
}

QueueChange Queues::output(Stage k, int count) const {
  return {graph_.rank_of(k), count, count * size_of(sizes_.output, k)};
}

QueueChange Queues::gradient(Stage k, int count) const {
  const Stage maker = graph_.shape().is_last(k) ? k
                      : has_feedback()          ? graph_.shape().last_of(k)
                                                : k + 1;
  return {graph_.rank_of(maker), count, count * size_of(sizes_.output_gradient, k)};
}

}  // namespace unlatch
