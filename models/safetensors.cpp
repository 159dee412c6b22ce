// Writing and strict reading of safetensors files.
#include "models/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <span>

#include "models/byte_source.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t length_bytes = 8;
constexpr const char* metadata_key = "__metadata__";
static_assert(std::endian::native == std::endian::little, "values are written as they lie");

/// Elements of a shape; -1 if a side is negative or the product of any prefix too large.
std::int64_t elements(const std::vector<std::int64_t>& shape) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 8;
  std::int64_t count = 1;
  for (std::int64_t side : shape) {
    if (side < 0 || (side > 0 && count > most / side)) return -1;
    count *= side;
  }
  return count;
}

Json header_of(const TensorFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header[metadata_key] = file.metadata;
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : file.tensors) {
    const std::uint64_t end = offset + tensor.values.size() * sizeof(float);
    require(tensor.name != metadata_key && !header.contains(tensor.name),
            "safetensors: the tensor name '{}' is reserved or given twice", tensor.name);
    require(elements(tensor.shape) == static_cast<std::int64_t>(tensor.values.size()),
            "safetensors: tensor '{}' has {} values, which do not fill its shape [{}]", tensor.name,
            tensor.values.size(), fmt::join(tensor.shape, ", "));
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  return header;
}

/// A tensor of the header with its place in the data.
struct Entry {
  NamedTensor tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  TensorFile read(std::span<const std::uint8_t> bytes) {
    const std::span<const std::uint8_t> text = header_text(bytes);
    const Json header = parse(text);
    const std::span<const std::uint8_t> data = bytes.subspan(length_bytes + text.size());
    TensorFile file;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == metadata_key) {
        file.metadata = metadata(value);
      } else {
        entries.push_back(entry(name, value));
      }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    require_cover(entries, data.size());
    for (Entry& e : entries) {
      e.tensor.values.resize((e.end - e.begin) / sizeof(float));
      if (e.end > e.begin) {
        std::memcpy(e.tensor.values.data(), data.data() + e.begin, e.end - e.begin);
      }
      file.tensors.push_back(std::move(e.tensor));
    }
    return file;
  }

 private:
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (condition) return;
    fail("{}: is no sound safetensors file: {}", name_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  std::span<const std::uint8_t> header_text(std::span<const std::uint8_t> bytes) const {
    check(bytes.size() >= length_bytes, "it has {} bytes, fewer than the {} of the header length",
          bytes.size(), length_bytes);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), length_bytes);
    const std::uint64_t rest = bytes.size() - length_bytes;
    check(length <= rest, "its header should take {} bytes, only {} are there", length, rest);
    return bytes.subspan(length_bytes, length);
  }

  Json parse(std::span<const std::uint8_t> text) const {
    std::vector<std::set<std::string>> keys;  // of the objects open now
    const auto refuse_twice = [&](int, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key) {
        const auto key = value.get<std::string>();
        check(keys.back().insert(key).second, "'{}' stands twice in its header", key);
      }
      return true;
    };
    try {
      Json header = Json::parse(text.begin(), text.end(), refuse_twice);
      check(header.is_object(), "its header is no JSON object");
      return header;
    } catch (const Json::exception&) {
      check(false, "its header is no JSON");
      throw;
    }
  }

  std::map<std::string, std::string> metadata(const Json& value) const {
    check(value.is_object(), "{} is no object", metadata_key);
    std::map<std::string, std::string> result;
    for (const auto& [key, text] : value.items()) {
      check(text.is_string(), "'{}' of {} is no text", key, metadata_key);
      result[key] = text.get<std::string>();
    }
    return result;
  }

  std::vector<std::int64_t> whole_numbers(const std::string& name, const Json& value,
                                          const char* key) const {
    const auto is_whole = [](const Json& number) { return number.is_number_unsigned(); };
    check(value.contains(key) && value[key].is_array() &&
              std::all_of(value[key].begin(), value[key].end(), is_whole),
          "tensor '{}' has no {} of whole numbers", name, key);
    return value[key].get<std::vector<std::int64_t>>();
  }

  Entry entry(const std::string& name, const Json& value) const {
    check(value.is_object() && value.contains("dtype") && value["dtype"].is_string(),
          "tensor '{}' has no dtype", name);
    const auto type = value["dtype"].get<std::string>();
    check(type == "F32", "tensor '{}' is of type {}, only F32 can be read", name, type);
    const std::vector<std::int64_t> shape = whole_numbers(name, value, "shape");
    const std::vector<std::int64_t> offsets = whole_numbers(name, value, "data_offsets");
    const std::int64_t count = elements(shape);
    check(count >= 0 && offsets.size() == 2 && offsets[0] >= 0 && offsets[0] <= offsets[1] &&
              static_cast<std::uint64_t>(offsets[1] - offsets[0]) == count * sizeof(float),
          "the data_offsets [{}] of tensor '{}' do not hold the F32 values of its shape [{}]",
          fmt::join(offsets, ", "), name, fmt::join(shape, ", "));
    return {.tensor = {.name = name, .shape = shape, .values = {}},
            .begin = static_cast<std::uint64_t>(offsets[0]),
            .end = static_cast<std::uint64_t>(offsets[1])};
  }

  void require_cover(const std::vector<Entry>& entries, std::uint64_t bytes) const {
    std::uint64_t next = 0;
    for (const Entry& e : entries) {
      check(e.begin == next, "the data of tensor '{}' begin at {} instead of {}", e.tensor.name,
            e.begin, next);
      next = e.end;
    }
    check(next == bytes, "its header announces {} bytes of data, {} are there", next, bytes);
  }

  std::string name_;
};

}  // namespace

void write_safetensors(std::ostream& out, const TensorFile& file) {
  // Text that is no UTF-8 (a path in the metadata) must not make a file that nobody can read.
  std::string header = header_of(file).dump(-1, ' ', false, Json::error_handler_t::replace);
  header.resize((header.size() + 7) / 8 * 8, ' ');  // values begin at a multiple of 8
  const std::uint64_t length = header.size();
  out.write(reinterpret_cast<const char*>(&length), length_bytes);
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const NamedTensor& tensor : file.tensors) {
    out.write(reinterpret_cast<const char*>(tensor.values.data()),
              static_cast<std::streamsize>(tensor.values.size() * sizeof(float)));
  }
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  return Reader(path.string()).read(read_file(path));
}

}  // namespace unlatch::models
