// The safetensors format itself: named tensors of several types as the bytes of a file.
//
// 8 bytes little-endian header length, a JSON header {"name":{"dtype":"F32","shape":[..],
// "data_offsets":[begin,end]},..,"__metadata__":{"key":"text",..}}, then the values, little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unlatch::models {

enum class TensorType : std::uint8_t { f32, f64, i64, u8 };
/// "F32", "F64", "I64", "U8".
std::string_view name(TensorType type);
std::size_t bytes_of(TensorType type);

/// A tensor whose values lie in somebody else's memory.
struct StoredTensor {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::int64_t> shape;   ///< empty for a scalar
  std::span<const std::byte> bytes;  ///< row-major
};

struct StoredTensors {
  std::vector<StoredTensor> tensors;  ///< in the order of their data
  std::map<std::string, std::string> metadata;
};

/// Everything before the values: length and header. Throws Error for a name given twice and for
/// values that do not fill their shape.
std::string head_of(const StoredTensors& file);

/// Writes the whole file to a binary stream, whose failures are the caller's to notice. Throws
/// Error as head_of() does.
void write_tensors(std::ostream& out, const StoredTensors& file);

/// The tensors of a file, whose bytes they lie in. Throws Error, naming the file and the tensor,
/// for anything that is not exactly this format: truncated, other types than those allowed, gaps or
/// overlaps in the data, trailing bytes.
StoredTensors read_tensors(const std::string& name, std::span<const std::uint8_t> file,
                           std::initializer_list<TensorType> allowed);

}  // namespace unlatch::models
