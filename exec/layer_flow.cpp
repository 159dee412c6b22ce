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

void Kept::visit_state(StateVisitor& visitor) {
  const auto visit_size = [&](auto& parts) {
    std::size_t size = parts.size();
    visitor.number(size);
    parts.resize(size);
  };
  visit_size(tensors);
  for (std::size_t j = 0; j < tensors.size(); ++j) visitor.tensor(std::to_string(j), tensors[j]);
  visit_size(inner);
  for (std::size_t j = 0; j < inner.size(); ++j) {
    const StateVisitor::Scope scope(visitor, fmt::format("layer {}", j));
    inner[j].visit_state(visitor);
  }
}

std::size_t LayerTape::bytes() const {
  SeenMemory counted;
  return kept.bytes(counted);
}

}  // namespace unlatch::exec
