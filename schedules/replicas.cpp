#include "schedules/replicas.h"

namespace unlatch {

Shape one_replica(Shape shape) {
  shape.stages /= shape.replicas;
  shape.micro_batches /= shape.replicas;
  shape.copies /= shape.replicas;
  shape.replicas = 1;
  return shape;
}

namespace {

/// Each replica's forwards take the outputs of their own replica.
Sources replicated_sources(const Schedule& one, const Shape& shape) {
  Sources all;
  const int m = one.shape().micro_batches;
  for (const Stage k : up_to<Stage>(one.learning().sources.empty() ? 0 : shape.stages)) {
    const int replica = k.value / one.shape().stages;
    const auto numbered = [&](int i) {
      return MicroBatch{i / m * shape.micro_batches + replica * m + i % m};
    };
    std::vector<MicroBatch>& mine = all.emplace_back();
    for (const MicroBatch i : up_to<MicroBatch>(shape.all_micro_batches())) mine.push_back(i);
    const std::vector<MicroBatch>& sources = one.learning().sources[k.value % one.shape().stages];
    for (int i = 0; i < static_cast<int>(sources.size()); ++i) {
      mine[numbered(i).value] = numbered(sources[i].value);
    }
  }
  return all;
}

}  // namespace

Schedule replicated(Schedule one, int replicas) {
  if (replicas == 1) return one;
  const Shape& mine = one.shape();
  Shape shape = mine;
  shape.stages *= replicas;
  shape.micro_batches *= replicas;
  shape.copies *= replicas;
  shape.replicas = replicas;
  Schedule all(one.specification(), shape);
  all.learning() = one.learning();
  all.learning().sources = replicated_sources(one, shape);
  if (one.learning().agreement.sums_gradients()) all.learning().loss_scale /= replicas;
  for (int replica = 0; replica < replicas; ++replica) {
    for (const Stage k : up_to<Stage>(mine.stages)) {
      all.place(k + replica * mine.stages, one.rank_of(k) + replica * mine.ranks());
    }
    for (const Rank r : up_to<Rank>(mine.ranks())) {
      for (Program::Item item : one.programs()[r.value].items()) {
        const int m = mine.micro_batches;
        const int batch = item.micro_batch.value / m;
        item.stage = item.stage + replica * mine.stages;
        item.micro_batch = {batch * shape.micro_batches + replica * m + item.micro_batch.value % m};
        all.on(r + replica * mine.ranks()).append(item);
      }
    }
  }
  return all;
}

}  // namespace unlatch
