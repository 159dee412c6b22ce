// Reading of plain and gzip bytes.
#include "models/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <system_error>

#include "schedules/error.h"
#include "schedules/readable_file.h"

namespace unlatch::models {

namespace {

bool is_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
}

std::vector<std::uint8_t> bytes_of(const std::filesystem::path& path, const ReadableFile& kind) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "{}: cannot be opened: {}", path.string(), std::strerror(errno));
  std::vector<std::uint8_t> bytes;
  std::vector<char> part(std::size_t{1} << 16);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0) {
    bytes.insert(bytes.end(), part.begin(), part.begin() + file.gcount());
    kind.require_bounded(bytes.size());
  }
  require(!file.bad(), "{}: cannot be read to its end", path.string());
  require(!bytes.empty(), "{}: the file is empty", path.string());
  return bytes;
}

}  // namespace

std::vector<std::uint8_t> read_file(const std::filesystem::path& path) {
  const ReadableFile kind(path.string());
  try {
    return bytes_of(path, kind);
  } catch (const std::bad_alloc&) {
    kind.fail_too_large();
  }
}

/// One zlib stream; gzip members that follow each other are one stream of bytes.
struct ByteSource::Inflater {
  z_stream stream{};
  bool ended = false;

  Inflater() {
    constexpr int gzip_only = 15 + 16;
    if (inflateInit2(&stream, gzip_only) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }

  std::size_t take(const std::string& name, std::span<const std::uint8_t>& in,
                   std::span<std::uint8_t> out);

 private:
  void step(const std::string& name, std::span<const std::uint8_t>& in,
            std::span<std::uint8_t>& out);
};

std::size_t ByteSource::Inflater::take(const std::string& name, std::span<const std::uint8_t>& in,
                                       std::span<std::uint8_t> out) {
  const std::size_t wanted = out.size();
  while (!out.empty() && !(ended && in.empty())) {
    if (ended) {
      require(is_gzip(in), "{}: {} bytes that are not gzip follow the gzip data", name, in.size());
      inflateReset(&stream);
      ended = false;
    }
    step(name, in, out);
  }
  return wanted - out.size();
}

void ByteSource::Inflater::step(const std::string& name, std::span<const std::uint8_t>& in,
                                std::span<std::uint8_t>& out) {
  constexpr std::size_t most = std::numeric_limits<uInt>::max();
  const std::size_t given = std::min(in.size(), most);
  const std::size_t room = std::min(out.size(), most);
  stream.next_in = const_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(given);
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(room);
  const int status = inflate(&stream, Z_NO_FLUSH);
  in = in.subspan(given - stream.avail_in);
  out = out.subspan(room - stream.avail_out);
  ended = status == Z_STREAM_END;
  if (status == Z_OK || ended) return;
  require(status != Z_BUF_ERROR, "{}: the gzip data ends too early; the file is truncated", name);
  fail("{}: the gzip data is damaged ({})", name, stream.msg ? stream.msg : zError(status));
}

ByteSource ByteSource::open(const std::filesystem::path& path) {
  std::vector<std::uint8_t> bytes = read_file(path);
  require(path.extension() != ".gz" || is_gzip(bytes),
          "{}: is not a gzip file, though its name ends in .gz", path.string());
  ByteSource source(path.string(), bytes);
  source.file_ = std::move(bytes);  // a moved vector keeps its memory, so rest_ stays valid
  return source;
}

ByteSource::ByteSource(std::string name, std::span<const std::uint8_t> bytes)
    : name_(std::move(name)),
      rest_(bytes),
      inflater_(is_gzip(bytes) ? std::make_unique<Inflater>() : nullptr) {}

ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource::~ByteSource() = default;

std::size_t ByteSource::take(std::span<std::uint8_t> out) {
  if (inflater_) return inflater_->take(name_, rest_, out);
  const std::size_t count = std::min(out.size(), rest_.size());
  std::copy_n(rest_.begin(), count, out.begin());
  rest_ = rest_.subspan(count);
  return count;
}

/// Of unpacked data, which a file much smaller than memory may have.
void ByteSource::grow(std::vector<std::uint8_t>& bytes, std::size_t size) const {
  try {
    bytes.resize(size);
  } catch (const std::bad_alloc&) {
    fail("{}: its data are too large for the memory of this machine", name_);
  }
}

std::vector<std::uint8_t> ByteSource::read(std::uint64_t count, const char* what) {
  constexpr std::uint64_t chunk = std::uint64_t{1} << 20;
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < count) {
    const std::size_t had = bytes.size();
    const std::uint64_t more = std::min(count - had, std::max<std::uint64_t>(chunk, had));
    grow(bytes, had + more);
    const std::size_t got = take(std::span(bytes).subspan(had));
    require(got == more, "{}: the file is truncated: {} should take {} bytes, only {} are there",
            name_, what, count, had + got);
  }
  return bytes;
}

std::vector<std::uint8_t> ByteSource::read_all() {
  std::vector<std::uint8_t> bytes;
  for (;;) {
    const std::size_t had = bytes.size();
    const std::size_t more = std::max<std::size_t>(std::size_t{1} << 20, had);
    grow(bytes, had + more);
    const std::size_t got = take(std::span(bytes).subspan(had));
    bytes.resize(had + got);
    if (got < more) return bytes;
  }
}

void ByteSource::require_end() {
  std::uint8_t byte = 0;
  require(take({&byte, 1}) == 0, "{}: there are bytes behind the data that its header announces",
          name_);
}

}  // namespace unlatch::models
