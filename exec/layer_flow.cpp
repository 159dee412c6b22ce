#include "exec/layer_flow.h"

namespace unlatch::exec {

std::size_t Kept::bytes(SeenMemory& counted) const {
  std::size_t sum = 0;
  for (const Tensor& tensor : tensors) {
    if (counted.insert(tensor.data<std::byte>()).second) sum += tensor.bytes();
  }
  for (const Kept& kept : inner) sum += kept.bytes(counted);
  return sum;
}

std::size_t LayerTape::bytes() const {
  SeenMemory counted;
  return kept.bytes(counted);
}

}  // namespace unlatch::exec
