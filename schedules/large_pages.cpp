#include "schedules/large_pages.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstdint>

namespace unlatch {

void advise_large_pages([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t large = 2 << 20;
  const auto first = (reinterpret_cast<std::uintptr_t>(begin) + large - 1) / large * large;
  const auto end = (reinterpret_cast<std::uintptr_t>(begin) + bytes) / large * large;
  // Advice may be refused; the memory is as good without.
  if (end > first) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

}  // namespace unlatch
