// Checksum: CRC-32 of bytes as they come, to tell damaged or exchanged data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace unlatch::models {

/// The CRC-32 of gzip and PNG, by zlib.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes);
  std::uint32_t value() const { return value_; }
  /// Eight hexadecimal digits.
  std::string text() const;

 private:
  std::uint32_t value_ = 0;
};

}  // namespace unlatch::models
