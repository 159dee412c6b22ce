// StateFile: the state of a run as a safetensors file with a checksum of all of it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/state_visitor.h"
#include "models/stored_tensors.h"

namespace unlatch::exec {

/// Gathers what it is shown without copying it: nothing may change before write().
class StateWriter : public StateVisitor {
 public:
  /// `precision` is that of StateVisitor::parameters(), f32 or f64.
  explicit StateWriter(models::TensorType precision) : precision_(precision) {}

  bool restores() const override { return false; }
  void numbers(std::vector<std::int64_t>& values) override;
  void reals(std::string_view name, std::span<float> values) override;
  void reals(std::string_view name, std::span<double> values) override;

  /// Once. The stream's failures are the caller's to notice.
  void write(std::ostream& out, std::map<std::string, std::string> metadata);

 private:
  void visit_tensor(std::string_view name, Tensor& value, bool holds_parameters) override;
  void add(std::string_view name, models::TensorType type, std::span<const std::byte> bytes);

  struct Place {
    const std::byte* memory;
    std::size_t bytes;
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct HashOfPlace {
    std::size_t operator()(const Place& place) const {
      return std::hash<const std::byte*>{}(place.memory) ^ place.bytes;
    }
  };

  models::TensorType precision_;
  std::vector<std::int64_t> numbers_;
  std::vector<models::StoredTensor> tensors_;
  std::unordered_map<Place, std::int64_t, HashOfPlace> seen_;  ///< memory, by its first mention
};

/// A file of StateWriter's, checked when it is opened.
class StateReader : public StateVisitor {
 public:
  /// Throws Error, naming the file, if it cannot be read, is of another kind or format version, or
  /// is damaged.
  explicit StateReader(const std::string& path);
  /// The same of a file's bytes.
  StateReader(std::string path, std::vector<std::uint8_t> bytes);
  StateReader(const StateReader&) = delete;
  StateReader& operator=(const StateReader&) = delete;

  const std::map<std::string, std::string>& metadata() const { return file_.metadata; }

  bool restores() const override { return true; }
  /// This and the other visits throw Error where the file holds something else.
  void numbers(std::vector<std::int64_t>& values) override;
  void reals(std::string_view name, std::span<float> values) override;
  void reals(std::string_view name, std::span<double> values) override;
  /// Throws Error unless everything in the file has been visited.
  void require_end() const;

 private:
  void visit_tensor(std::string_view name, Tensor& value, bool holds_parameters) override;
  void require_checksum();
  void index_tensors();
  std::span<const std::byte> take(std::string_view name);
  void copy(std::string_view name, std::span<std::byte> to);
  std::int64_t next_number();

  std::string path_of_file_;
  std::vector<std::uint8_t> bytes_;
  models::StoredTensors file_;
  std::unordered_map<std::string, std::span<const std::byte>> tensors_;  ///< not yet taken
  std::span<const std::byte> numbers_;                                   ///< not yet taken
  std::vector<Tensor> shared_;  ///< memory, in the order of its first mention
  BufferPool pool_;
};

}  // namespace unlatch::exec
