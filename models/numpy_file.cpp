#include "models/numpy_file.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <optional>

#include "models/byte_source.h"
#include "schedules/error.h"

namespace unlatch::models {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::int64_t most_elements = std::int64_t{1} << 40;

/// The header's dictionary, of which only this form is written:
/// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class Header {
 public:
  Header(const std::string& file, std::string_view text) : file_(file), rest_(text) {}

  void read() {
    take("{");
    while (!taken("}")) {
      const std::string_view key = quoted();
      take(":");
      if (key == "descr" && !type) {
        type = std::string(description());
      } else if (key == "fortran_order" && !fortran) {
        fortran = taken("True");
        if (!*fortran) take("False");
      } else if (key == "shape" && !shape) {
        shape = tuple();
      } else {
        broken();
      }
      if (!taken(",") && rest_.find('}') != 0) broken();
    }
    if (!rest_.empty() || !type || !fortran || !shape) broken();
  }

  std::optional<std::string> type;
  std::optional<bool> fortran;
  std::optional<std::vector<std::int64_t>> shape;

 private:
  [[noreturn]] void broken() const {
    fail(
        "{}: its header is not that of a NumPy array ({{'descr': .., 'fortran_order': .., "
        "'shape': ..}}); the file is damaged or of another kind",
        file_);
  }
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
  }
  bool taken(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    skip_blanks();
    return true;
  }
  void take(std::string_view word) {
    if (!taken(word)) broken();
  }
  std::string_view quoted() {
    const std::size_t end = rest_.starts_with('\'') ? rest_.find('\'', 1) : std::string_view::npos;
    if (end == std::string_view::npos) broken();
    const std::string_view word = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    skip_blanks();
    return word;
  }
  std::string_view description() {
    require(!rest_.starts_with('['), "{}: holds records of several fields; write plain numbers",
            file_);
    return quoted();
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> sides;
    take("(");
    while (!taken(")")) {
      std::int64_t side = 0;
      const char* end = rest_.data() + rest_.size();
      const auto [after, error] = std::from_chars(rest_.data(), end, side);
      if (error != std::errc{} || side < 0) broken();
      rest_.remove_prefix(static_cast<std::size_t>(after - rest_.data()));
      skip_blanks();
      sides.push_back(side);
      if (!taken(",") && !rest_.starts_with(')')) broken();
    }
    return sides;
  }

  const std::string& file_;
  std::string_view rest_;
};

std::size_t little_endian(const std::vector<std::uint8_t>& bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

Header read_header(ByteSource& file) {
  const std::vector<std::uint8_t> start = file.read(magic.size() + 2, "NumPy's first bytes");
  require(std::equal(magic.begin(), magic.end(), start.begin(),
                     [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }),
          "{}: is no .npy file: it does not begin with \\x93NUMPY", file.name());
  const int major = start[magic.size()], minor = start[magic.size() + 1];
  require((major == 1 || major == 2) && minor == 0,
          "{}: is of version {}.{} of the .npy format; versions 1.0 and 2.0 can be read, which "
          "numpy.save writes for arrays of plain numbers",
          file.name(), major, minor);
  const std::size_t length = little_endian(file.read(major == 1 ? 2 : 4, "the header's length"));
  constexpr std::size_t longest = 1 << 16;
  require(length <= longest, "{}: its header announces {} bytes of header; {} are possible",
          file.name(), length, longest);
  const std::vector<std::uint8_t> bytes = file.read(length, "the header");
  const std::string text(bytes.begin(), bytes.end());
  Header header(file.name(), text);
  header.read();
  return header;
}

[[noreturn]] void fail_type(const std::string& file, const std::string& type, const NumpyUse& use) {
  fail("{}: holds numbers of type {}; {}; write them with a.astype('{}')", file, type, use.types,
       use.type);
}

/// Throws Error for a type that cannot be read, with what to do.
std::size_t bytes_of(const std::string& file, const std::string& type, const NumpyUse& use) {
  constexpr std::string_view read[] = {"|u1", "|i1", "<u2", "<i2", "<u4",
                                       "<i4", "<u8", "<i8", "<f4"};
  if (std::ranges::find(read, type) != std::end(read)) {
    return static_cast<std::size_t>(type.back() - '0');
  }
  require(!type.starts_with('>'),
          "{}: its numbers ({}) are big endian; write them with "
          "a.astype(a.dtype.newbyteorder('<'))",
          file, type);
  fail_type(file, type, use);
}

}  // namespace

std::int64_t NumpyArray::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

NumpyArray read_numpy(const std::filesystem::path& path, const NumpyUse& use) {
  ByteSource file = ByteSource::open(path);
  const Header header = read_header(file);
  require(!*header.fortran,
          "{}: is in Fortran's order, its first index fastest; write it with "
          "numpy.ascontiguousarray(a)",
          file.name());
  const std::size_t size = bytes_of(file.name(), *header.type, use);
  std::int64_t elements = 1;
  for (const std::int64_t side : *header.shape) {
    require(side >= 1 && side <= most_elements / elements,
            "{}: its header announces an array of {}, which is empty or too large", file.name(),
            fmt::join(*header.shape, "x"));
    elements *= side;
  }
  NumpyArray array{.name = file.name(),
                   .type = *header.type,
                   .shape = *header.shape,
                   .bytes = file.read(static_cast<std::uint64_t>(elements) * size, "the array")};
  file.require_end();
  return array;
}

void require_type(const NumpyArray& array, bool allowed, const NumpyUse& use) {
  if (!allowed) fail_type(array.name, array.type, use);
}

std::vector<std::int64_t> whole_numbers(const NumpyArray& array) {
  const bool is_signed = array.type[1] == 'i';
  const auto size = static_cast<std::size_t>(array.type.back() - '0');
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at < array.bytes.size(); at += size) {
    const bool negative = is_signed && (array.bytes[at + size - 1] & 0x80) != 0;
    std::int64_t value = negative ? -1 : 0;
    std::memcpy(&value, &array.bytes[at], size);
    numbers.push_back(value);
  }
  return numbers;
}

}  // namespace unlatch::models
