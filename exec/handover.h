// What it costs to read a tensor that another core wrote some time ago.
#pragma once

namespace unlatch::exec {

/// Nanoseconds a byte that the first reader of a tensor pays on top when a different core wrote it
/// and other work has gone through the caches since, compared with reading what it wrote itself a
/// moment before. A profile has every layer's input in the second state, a pipeline has a stage's
/// input in the first. Takes some tens of milliseconds.
double handover_ns_per_byte();

}  // namespace unlatch::exec
