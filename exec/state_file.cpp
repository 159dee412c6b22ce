#include "exec/state_file.h"

#include <algorithm>
#include <cstring>
#include <ostream>

#include "models/byte_source.h"
#include "models/checksum.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

using models::TensorType;

constexpr std::string_view format_key = "format";
constexpr std::string_view format = "unlatch checkpoint";
constexpr std::string_view version_key = "format_version";
constexpr std::string_view version = "2";
constexpr std::string_view numbers_name = "numbers";
/// The last tensor: of every byte of the file before it.
constexpr std::string_view checksum_name = "checksum";
constexpr std::int64_t empty_tensor = -1;

std::string text_of(const std::map<std::string, std::string>& metadata, std::string_view key) {
  const auto found = metadata.find(std::string(key));
  return found == metadata.end() ? "" : found->second;
}

}  // namespace

// ---- saving ------------------------------------------------------------------------------------

void StateWriter::numbers(std::vector<std::int64_t>& values) {
  numbers_.push_back(static_cast<std::int64_t>(values.size()));
  numbers_.insert(numbers_.end(), values.begin(), values.end());
}

void StateWriter::reals(std::string_view name, std::span<float> values) {
  add(name, TensorType::f32, std::as_bytes(values));
}

void StateWriter::reals(std::string_view name, std::span<double> values) {
  add(name, TensorType::f64, std::as_bytes(values));
}

void StateWriter::visit_tensor(std::string_view name, Tensor& value, bool holds_parameters) {
  if (value.empty()) return numbers_.push_back(empty_tensor);
  const auto [entry, is_new] =
      seen_.try_emplace({value.data<std::byte>(), value.bytes()}, std::ssize(seen_));
  numbers_.push_back(entry->second);
  if (is_new) add(name, holds_parameters ? precision_ : TensorType::u8, value.as<std::byte>());
}

void StateWriter::add(std::string_view name, TensorType type, std::span<const std::byte> bytes) {
  const auto values = static_cast<std::int64_t>(bytes.size() / models::bytes_of(type));
  tensors_.push_back({.name = path_to(name), .type = type, .shape = {values}, .bytes = bytes});
}

void StateWriter::write(std::ostream& out, std::map<std::string, std::string> metadata) {
  add(numbers_name, TensorType::i64, std::as_bytes(std::span(numbers_)));
  // Bytes come last, so that every number lies at a multiple of its size.
  std::ranges::stable_sort(tensors_, std::greater<>{},
                           [](const auto& tensor) { return models::bytes_of(tensor.type); });
  std::uint32_t value = 0;
  add(checksum_name, TensorType::u8, std::as_bytes(std::span(&value, 1)));
  metadata.emplace(format_key, format);
  metadata.emplace(version_key, version);
  const models::StoredTensors file{std::move(tensors_), std::move(metadata)};
  models::Checksum checksum;
  const std::string head = models::head_of(file);
  checksum.add(std::as_bytes(std::span(head)));
  for (const models::StoredTensor& tensor :
       std::span(file.tensors).first(file.tensors.size() - 1)) {
    checksum.add(tensor.bytes);
  }
  value = checksum.value();
  models::write_tensors(out, file);
}

// ---- restoring ---------------------------------------------------------------------------------

StateReader::StateReader(const std::string& path) : StateReader(path, models::read_file(path)) {}

StateReader::StateReader(std::string path, std::vector<std::uint8_t> bytes)
    : path_of_file_(std::move(path)), bytes_(std::move(bytes)) {
  file_ = models::read_tensors(path_of_file_, bytes_,
                               {TensorType::f32, TensorType::f64, TensorType::i64, TensorType::u8});
  require(text_of(file_.metadata, format_key) == format,
          "{}: is no checkpoint of a training run (its metadata has no format '{}')", path_of_file_,
          format);
  const std::string given = text_of(file_.metadata, version_key);
  require(given == version, "{}: has the checkpoint format {}, this version reads {}",
          path_of_file_, given, version);
  require_checksum();
  index_tensors();
}

void StateReader::require_checksum() {
  std::uint32_t expected = 0;
  const bool is_there = !file_.tensors.empty() && file_.tensors.back().name == checksum_name &&
                        file_.tensors.back().bytes.size() == sizeof expected;
  require(is_there, "{}: is damaged: it does not end in a checksum", path_of_file_);
  std::memcpy(&expected, file_.tensors.back().bytes.data(), sizeof expected);
  models::Checksum checksum;
  checksum.add(std::as_bytes(std::span(bytes_).first(bytes_.size() - sizeof expected)));
  require(checksum.value() == expected,
          "{}: is damaged: its contents have the checksum {}, and {:08x} was written",
          path_of_file_, checksum.text(), expected);
}

void StateReader::index_tensors() {
  for (const models::StoredTensor& tensor : file_.tensors) {
    tensors_.emplace(tensor.name, tensor.bytes);
  }
  tensors_.erase(std::string(checksum_name));
  numbers_ = take(numbers_name);
}

std::int64_t StateReader::next_number() {
  std::int64_t value = 0;
  require(numbers_.size() >= sizeof value, "{}: holds fewer numbers than this run keeps",
          path_of_file_);
  std::memcpy(&value, numbers_.data(), sizeof value);
  numbers_ = numbers_.subspan(sizeof value);
  return value;
}

void StateReader::numbers(std::vector<std::int64_t>& values) {
  const std::int64_t size = next_number();
  require(size >= 0 && static_cast<std::size_t>(size) <= numbers_.size() / sizeof size,
          "{}: holds fewer numbers than this run keeps", path_of_file_);
  values.resize(static_cast<std::size_t>(size));
  for (std::int64_t& value : values) value = next_number();
}

void StateReader::reals(std::string_view name, std::span<float> values) {
  copy(name, std::as_writable_bytes(values));
}

void StateReader::reals(std::string_view name, std::span<double> values) {
  copy(name, std::as_writable_bytes(values));
}

void StateReader::visit_tensor(std::string_view name, Tensor& value, bool) {
  const std::int64_t index = next_number();
  require(index >= empty_tensor && index <= std::ssize(shared_),
          "{}: '{}' shares memory with what is not there", path_of_file_, path_to(name));
  if (index == std::ssize(shared_)) {
    const std::span<const std::byte> bytes = take(name);
    shared_.push_back(pool_.take(bytes.size()));
    std::ranges::copy(bytes, shared_.back().data<std::byte>());
  }
  const Tensor restored =
      index == empty_tensor ? Tensor{} : shared_[static_cast<std::size_t>(index)];
  require(value.empty() || value.bytes() == restored.bytes(),
          "{}: '{}' has {} bytes, {} in this run", path_of_file_, path_to(name), restored.bytes(),
          value.bytes());
  value = restored;
}

std::span<const std::byte> StateReader::take(std::string_view name) {
  const auto found = tensors_.find(path_to(name));
  require(found != tensors_.end(), "{}: has no '{}', which this run keeps", path_of_file_,
          path_to(name));
  const std::span<const std::byte> bytes = found->second;
  tensors_.erase(found);
  return bytes;
}

void StateReader::copy(std::string_view name, std::span<std::byte> to) {
  const std::span<const std::byte> from = take(name);
  require(from.size() == to.size(), "{}: '{}' has {} bytes, {} in this run", path_of_file_,
          path_to(name), from.size(), to.size());
  std::ranges::copy(from, to.begin());
}

void StateReader::require_end() const {
  require(numbers_.empty(), "{}: holds more numbers than this run keeps", path_of_file_);
  require(tensors_.empty(), "{}: holds '{}', which this run does not keep", path_of_file_,
          tensors_.empty() ? "" : tensors_.begin()->first);
}

}  // namespace unlatch::exec
