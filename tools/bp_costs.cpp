#include "tools/bp_costs.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/terminal.h"

namespace unlatch::tools {

bool knows_bp(const LayerWorkload& layers) {
  if (!layers.profile) return true;
  const auto [least, most] =
      std::ranges::minmax(layers.profile->profiles, {}, &exec::LayerProfile::micro_batch_size);
  return least.micro_batch_size <= layers.batch_size && layers.batch_size <= most.micro_batch_size;
}

void note_unknown_bp(const Workload& workload) {
  if (!workload.layers || knows_bp(*workload.layers)) return;
  say(fmt::format(
      "note: the profile has no costs of a whole batch in one piece, {} samples, so the "
      "speed-up over BP is unknown",
      workload.layers->batch_size));
}

}  // namespace unlatch::tools
