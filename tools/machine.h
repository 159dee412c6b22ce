// Memory of this machine: how much there is, and how the program stays within it.
#pragma once

#include <cstdint>

namespace unlatch::tools {

/// Bytes that this process may use: the machine's, or fewer where its control group says so.
std::int64_t memory_bytes();

/// Makes an allocation beyond memory_bytes() fail, so that a request that is too large ends in a
/// message. Without it the kernel hands out memory that is not there and then kills some process.
void limit_memory();

}  // namespace unlatch::tools
