// ByteSource: the bytes of a file or of memory, gunzipped on the way if they are gzip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace unlatch::models {

/// The file as it is. Throws Error if it cannot be read, is no file or pipe, is empty or too large.
std::vector<std::uint8_t> read_file(const std::filesystem::path& path);

/// Reads once, front to back. Every read throws Error, naming the source, for damaged gzip data.
class ByteSource {
 public:
  /// Reads the file as it is; gzip is known by its first bytes. Throws Error if it cannot be read,
  /// is empty, or is named .gz without being gzip.
  static ByteSource open(const std::filesystem::path& path);
  /// Bytes that outlive the source.
  ByteSource(std::string name, std::span<const std::uint8_t> bytes);
  ByteSource(ByteSource&&) noexcept;
  ~ByteSource();

  const std::string& name() const { return name_; }
  /// Exactly `count` bytes, of which `what` says what they are; throws Error if there are fewer.
  /// Memory grows with what is there, so that a damaged header cannot ask for more.
  std::vector<std::uint8_t> read(std::uint64_t count, const char* what);
  /// Everything that is left.
  std::vector<std::uint8_t> read_all();
  /// Throws Error if a byte is left.
  void require_end();

 private:
  struct Inflater;
  /// Up to out.size() bytes; fewer only at the end.
  std::size_t take(std::span<std::uint8_t> out);
  void grow(std::vector<std::uint8_t>& bytes, std::size_t size) const;

  std::string name_;
  std::vector<std::uint8_t> file_;
  std::span<const std::uint8_t> rest_;
  std::unique_ptr<Inflater> inflater_;  ///< null for plain bytes
};

}  // namespace unlatch::models
