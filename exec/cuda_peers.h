// Copies straight from one GPU to another: made possible, and tried.
#pragma once

#include <span>

namespace unlatch::exec::cuda {

/// Opens the way between any two of the devices, where the machine has one; CUDA takes copies
/// through the host elsewhere. Then copies a pattern both ways. Throws RunError with both devices
/// when it does not arrive as it was sent, as with some settings of an IOMMU. Leaves another device
/// selected than before.
void open_peers(std::span<const int> devices);

}  // namespace unlatch::exec::cuda
