#include "files/repeat.h"

#include <algorithm>

namespace unlatch::files {

namespace {

Sources repeated_sources(const Schedule& one, int batches) {
  Sources sources = one.learning().sources;
  for (std::vector<MicroBatch>& row : sources) {
    const std::vector<MicroBatch> first = row;
    for (int batch = 1; batch < batches; ++batch) {
      for (const MicroBatch i : first) row.push_back(i + batch * one.shape().micro_batches);
    }
  }
  return sources;
}

}  // namespace

Schedule repeated(const Schedule& one, int batches) {
  Shape shape = one.shape();
  const int micro_batches = shape.micro_batches;
  shape.batches = batches;
  Schedule all(one.specification(), shape);
  all.learning() = one.learning();
  all.learning().sources = repeated_sources(one, batches);
  for (const Stage k : up_to<Stage>(shape.stages)) all.place(k, one.rank_of(k));
  for (const Rank r : up_to<Rank>(shape.ranks())) {
    const auto& items = one.programs()[r.value].items();
    int steps = 1;
    for (const Program::Item& item : items) steps = std::max(steps, item.step + 1);
    for (int batch = 0; batch < batches; ++batch) {
      for (Program::Item item : items) {
        item.micro_batch = item.micro_batch + batch * micro_batches;
        item.step += batch * steps;
        all.on(r).append(item);
      }
    }
  }
  return all;
}

ActionTable repeated(const ActionTable& one, const Shape& whole) {
  const int stages = whole.stages / whole.replicas;
  const int micro_batches = whole.micro_batches / whole.replicas;
  ActionTable all;
  for (int replica = 0; replica < whole.replicas; ++replica) {
    for (const ActionRow& row : one.rows) {
      ActionRow& longer = all.rows.emplace_back();
      for (int batch = 0; batch < whole.batches; ++batch) {
        for (Action action : row) {
          const int first = batch * whole.micro_batches + replica * micro_batches;
          action.stage = action.stage + replica * stages;
          if (takes_micro_batch(action.kind)) action.micro_batch = action.micro_batch + first;
          longer.push_back(action);
        }
      }
    }
  }
  return all;
}

}  // namespace unlatch::files
