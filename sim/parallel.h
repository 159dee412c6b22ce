// in_parallel: independent pieces of work on all cores.
#pragma once

#include <functional>

namespace unlatch::sim {

/// work(0) .. work(count - 1), each once, from several threads at once and in any order. When one
/// throws, those not yet begun are left out and the exception is thrown again.
void in_parallel(int count, const std::function<void(int)>& work);

}  // namespace unlatch::sim
