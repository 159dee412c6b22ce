#include "schedules/large_pages.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <new>

namespace unlatch {

namespace {

constexpr std::align_val_t large_page{2 << 20};

}  // namespace

void* allocate_large_pages(std::size_t bytes) {
  void* const memory = ::operator new(bytes, large_page);
#ifdef MADV_HUGEPAGE
  // The last page is used in part. Advice may be refused; the memory is as good without.
  constexpr std::size_t page = 4096;
  madvise(memory, bytes / page * page, MADV_HUGEPAGE);
#endif
  return memory;
}

void free_large_pages(void* memory, std::size_t bytes) {
  ::operator delete(memory, bytes, large_page);
}

}  // namespace unlatch
