// How often the host did what costs it time, written to the file that UNLATCH_STANDIN_COUNTS names
// when the process ends: JSON.
#pragma once

namespace unlatch::standin {

enum class Count {
  mallocs,                  ///< cudaMalloc
  host_mallocs,             ///< cudaMallocHost
  works,                    ///< kernels and copies put on streams
  works_before_a_question,  ///< of those, before the host first asked whether anything is done
};

void count(Count what);
/// The host asks whether the device is done with something, and may wait for it.
void note_question();

}  // namespace unlatch::standin
