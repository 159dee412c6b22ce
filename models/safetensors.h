// Named float32 tensors in the safetensors format (stored_tensors.h), which PyTorch and others read
// too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace unlatch::models {

struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::vector<float> values;        ///< row-major
  friend bool operator==(const NamedTensor&, const NamedTensor&) = default;
};

struct TensorFile {
  std::vector<NamedTensor> tensors;  ///< in the order of their data
  std::map<std::string, std::string> metadata;
  friend bool operator==(const TensorFile&, const TensorFile&) = default;
};

/// Writes the whole file to a binary stream, whose failures are the caller's to notice. Throws
/// Error for a name given twice and for values that do not fill their shape.
void write_safetensors(std::ostream& out, const TensorFile& file);

/// Throws Error, naming the file and the tensor, for anything that is not exactly this format:
/// truncated, other types than F32, gaps or overlaps in the data, trailing bytes.
TensorFile read_safetensors(const std::filesystem::path& path);

}  // namespace unlatch::models
