// NumPy's .npy files: one array with its header.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace unlatch::models {

/// What an array is to hold.
struct NumpyUse {
  std::string_view types;  ///< "images are uint8 or float32"
  std::string_view type;   ///< "float32": one to convert to
};

struct NumpyArray {
  std::string name;                 ///< of the file, for messages
  std::string type;                 ///< as in the file: "|u1", "<f4", "<i8"
  std::vector<std::int64_t> shape;  ///< none is 0
  std::vector<std::uint8_t> bytes;  ///< row-major, little endian

  std::int64_t elements() const;
};

/// Reads a file, plain or gzip. Numbers are whole ones of 1 to 8 bytes or 4-byte floats. Throws
/// Error that says what was found and what to write instead, for headers of other versions than 1
/// and 2, other types, big endian, Fortran order, and files that are damaged, cut off or too long.
NumpyArray read_numpy(const std::filesystem::path& path, const NumpyUse& use);

/// Throws Error for an array of another type than the use allows.
void require_type(const NumpyArray& array, bool allowed, const NumpyUse& use);

/// The numbers of an array of whole ones.
std::vector<std::int64_t> whole_numbers(const NumpyArray& array);

}  // namespace unlatch::models
