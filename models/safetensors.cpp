#include "models/safetensors.h"

#include <cstring>

#include "models/byte_source.h"
#include "models/stored_tensors.h"

namespace unlatch::models {

void write_safetensors(std::ostream& out, const TensorFile& file) {
  StoredTensors stored{.tensors = {}, .metadata = file.metadata};
  for (const NamedTensor& tensor : file.tensors) {
    stored.tensors.push_back({.name = tensor.name,
                              .type = TensorType::f32,
                              .shape = tensor.shape,
                              .bytes = std::as_bytes(std::span(tensor.values))});
  }
  write_tensors(out, stored);
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  const std::vector<std::uint8_t> bytes = read_file(path);
  const StoredTensors stored = read_tensors(path.string(), bytes, {TensorType::f32});
  TensorFile file{.tensors = {}, .metadata = stored.metadata};
  for (const StoredTensor& tensor : stored.tensors) {
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    file.tensors.push_back({tensor.name, tensor.shape, std::move(values)});
  }
  return file;
}

}  // namespace unlatch::models
