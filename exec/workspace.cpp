#include <algorithm>

#include "exec/stage_module.h"

namespace unlatch::exec {

std::byte* Workspace::at_least(std::size_t bytes) {
  if (buffer_.bytes() < bytes) {
    // Doubling keeps a run of slowly growing requests from allocating each time.
    const std::size_t size = std::max(bytes, 2 * buffer_.bytes());
    buffer_ = {};
    pool_ = BufferPool();  // lets the smaller buffer go
    buffer_ = pool_.take(size);
  }
  return buffer_.data<std::byte>();
}

}  // namespace unlatch::exec
