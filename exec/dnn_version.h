// What the numbers and layouts of a run on the CPU depend on beside its settings.
#pragma once

#include <string>

namespace unlatch::exec {

/// "oneDNN 2.6.3 for instruction set 0xf, blocks of 8 channels": two runs compute the same bits and
/// lay their tensors out alike only where this is the same.
std::string cpu_arithmetic();

}  // namespace unlatch::exec
