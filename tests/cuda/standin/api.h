// What every function of the runtime's stand-in does around its own work.
#pragma once

#include <algorithm>
#include <utility>

#include "tests/cuda/standin/device.h"

namespace unlatch::standin {

inline World& world() { return World::instance(); }
inline bool is_device(int device) { return device >= 0 && device < settings().devices; }

/// cudaGetLastError() will tell it too, that a device is not ready included.
inline cudaError_t told(cudaError_t error) {
  if (error != cudaSuccess) world().last = error;
  return error;
}

/// Nothing goes on where the device has failed.
template <class F>
cudaError_t call(F f) {
  if (world().failed != cudaSuccess) return world().failed;
  return told(f());
}

}  // namespace unlatch::standin
