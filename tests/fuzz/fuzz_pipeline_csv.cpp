// libFuzzer's entry to the target of the same name.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  unlatch::fuzz::pipeline_csv({reinterpret_cast<const char*>(data), size});
  return 0;
}
