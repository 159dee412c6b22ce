#include "models/checksum.h"

#include <fmt/format.h>
#include <zlib.h>

namespace unlatch::models {

void Checksum::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // zlib would start anew where no memory is given
  value_ = static_cast<std::uint32_t>(
      crc32_z(value_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string Checksum::text() const { return fmt::format("{:08x}", value_); }

}  // namespace unlatch::models
