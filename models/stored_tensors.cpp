// Writing and strict reading of the safetensors format.
#include "models/stored_tensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <utility>

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

struct NamedType {
  std::string_view name;
  std::size_t bytes;
};
constexpr NamedType types[] = {{"F32", 4}, {"F64", 8}, {"I64", 8}, {"U8", 1}};

const NamedType& facts_of(TensorType type) { return types[static_cast<std::size_t>(type)]; }

Json header_of(const StoredTensors& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header[metadata_key] = file.metadata;
  std::set<std::string_view> names{metadata_key};
  std::uint64_t offset = 0;
  for (const StoredTensor& tensor : file.tensors) {
    const std::uint64_t end = offset + tensor.bytes.size();
    const std::size_t values = tensor.bytes.size() / bytes_of(tensor.type);
    require(names.insert(tensor.name).second,
            "safetensors: the tensor name '{}' is reserved or given twice", tensor.name);
    require(elements(tensor.shape) == static_cast<std::int64_t>(values) &&
                tensor.bytes.size() % bytes_of(tensor.type) == 0,
            "safetensors: tensor '{}' has {} values, which do not fill its shape [{}]", tensor.name,
            values, fmt::join(tensor.shape, ", "));
    header[tensor.name] = {
        {"dtype", name(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  return header;
}

/// A tensor of the header with its place in the data.
struct Entry {
  StoredTensor tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class Reader {
 public:
  Reader(std::string name, std::initializer_list<TensorType> allowed)
      : name_(std::move(name)), allowed_(allowed) {}

  StoredTensors read(std::span<const std::uint8_t> bytes) {
    const std::span<const std::uint8_t> text = header_text(bytes);
    const Json header = parse(text);
    const std::span<const std::uint8_t> data = bytes.subspan(length_bytes + text.size());
    StoredTensors file;
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
      e.tensor.bytes = std::as_bytes(data.subspan(e.begin, e.end - e.begin));
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
    const TensorType type = type_of(name, value["dtype"].get<std::string>());
    const std::vector<std::int64_t> shape = whole_numbers(name, value, "shape");
    const std::vector<std::int64_t> offsets = whole_numbers(name, value, "data_offsets");
    const std::int64_t count = elements(shape);
    check(count >= 0 && offsets.size() == 2 && offsets[0] >= 0 && offsets[0] <= offsets[1] &&
              static_cast<std::uint64_t>(offsets[1] - offsets[0]) == count * bytes_of(type),
          "the data_offsets [{}] of tensor '{}' do not hold the {} values of its shape [{}]",
          fmt::join(offsets, ", "), name, models::name(type), fmt::join(shape, ", "));
    return {.tensor = {.name = name, .type = type, .shape = shape, .bytes = {}},
            .begin = static_cast<std::uint64_t>(offsets[0]),
            .end = static_cast<std::uint64_t>(offsets[1])};
  }

  TensorType type_of(const std::string& name, const std::string& type) const {
    std::vector<std::string_view> readable;
    for (const TensorType each : allowed_) {
      readable.push_back(models::name(each));
      if (readable.back() == type) return each;
    }
    fail("{}: is no sound safetensors file: tensor '{}' is of type {}, only {} can be read", name_,
         name, type, fmt::join(readable, ", "));
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
  std::vector<TensorType> allowed_;
};

}  // namespace

std::string_view name(TensorType type) { return facts_of(type).name; }
std::size_t bytes_of(TensorType type) { return facts_of(type).bytes; }

std::string head_of(const StoredTensors& file) {
  // Text that is no UTF-8 (a path in the metadata) must not make a file that nobody can read.
  std::string header = header_of(file).dump(-1, ' ', false, Json::error_handler_t::replace);
  header.resize((header.size() + 7) / 8 * 8, ' ');  // values begin at a multiple of 8
  const std::uint64_t length = header.size();
  std::string head(length_bytes, '\0');
  std::memcpy(head.data(), &length, length_bytes);
  return head + header;
}

void write_tensors(std::ostream& out, const StoredTensors& file) {
  const std::string head = head_of(file);
  out.write(head.data(), static_cast<std::streamsize>(head.size()));
  for (const StoredTensor& tensor : file.tensors) {
    out.write(reinterpret_cast<const char*>(tensor.bytes.data()),
              static_cast<std::streamsize>(tensor.bytes.size()));
  }
}

StoredTensors read_tensors(const std::string& name, std::span<const std::uint8_t> file,
                           std::initializer_list<TensorType> allowed) {
  return Reader(name, allowed).read(file);
}

}  // namespace unlatch::models
