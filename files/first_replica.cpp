#include "files/first_replica.h"

#include "files/native_json.h"
#include "schedules/replicas.h"

namespace unlatch::files {
namespace {

/// A sum over the replicas scales each by its share (schedules/replicas.cpp). The usual scale is
/// taken as it is, without the rounding of a division undone.
double loss_scale_of_one(const Learning& whole, double usual, int replicas) {
  const int parts = whole.agreement.sums_gradients() ? replicas : 1;
  return usual / parts == whole.loss_scale ? usual : whole.loss_scale * parts;
}

}  // namespace

std::optional<Schedule> first_replica(const Schedule& whole) {
  const Shape& all = whole.shape();
  if (all.replicas == 1) return whole;
  if (!whole.learning().sources.empty()) return std::nullopt;
  const Shape mine = one_replica(all);
  Schedule one(whole.specification(), mine);
  const double usual = one.learning().loss_scale;
  one.learning() = whole.learning();
  one.learning().loss_scale = loss_scale_of_one(whole.learning(), usual, all.replicas);
  for (const Stage k : up_to<Stage>(mine.stages)) {
    if (whole.rank_of(k).value >= mine.ranks()) return std::nullopt;
    one.place(k, whole.rank_of(k));
  }
  for (const Rank r : up_to<Rank>(mine.ranks())) {
    for (Program::Item item : whole.programs()[r.value].items()) {
      const int batch = item.micro_batch.value / all.micro_batches;
      const int place = item.micro_batch.value % all.micro_batches;
      if (item.stage.value >= mine.stages || place >= mine.micro_batches) return std::nullopt;
      item.micro_batch = {batch * mine.micro_batches + place};
      one.on(r).append(item);
    }
  }
  if (native_json(replicated(one, all.replicas)) != native_json(whole)) return std::nullopt;
  return one;
}

}  // namespace unlatch::files
