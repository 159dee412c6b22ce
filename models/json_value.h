// JsonValue: a value of a JSON file that knows its place, for readers that name every fault's.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace unlatch::models {

/// A view; the JSON must outlive it. Every reader throws Error that begins with the place, such as
/// "4xA100.json, node.links[1].bandwidth".
class JsonValue {
 public:
  JsonValue(const nlohmann::json& json, std::string place);

  const std::string& place() const& { return place_; }
  bool is_list() const;
  bool is_number() const;
  bool is_empty_list() const;
  bool has(const char* key) const;
  /// Throws Error unless it is an object with no keys but these.
  void require_object(const std::vector<std::string_view>& keys) const;
  JsonValue at(const char* key) const;
  /// Not empty.
  std::vector<JsonValue> list() const;
  /// Of an object that is not empty.
  std::vector<std::pair<std::string, JsonValue>> members() const;
  /// Not empty, and without control characters.
  std::string text() const;
  /// One of these.
  std::string word(const std::vector<std::string_view>& words) const;
  bool yes() const;
  double number(double least, double most) const;
  /// 4.0 is one as well, as in a JSON schema.
  int whole(int least, int most) const;
  std::int64_t long_whole(std::int64_t least, std::int64_t most) const;

 private:
  std::string inner(std::string_view key) const;

  const nlohmann::json* json_;
  std::string place_;
};

/// `text` is a whole file, `place` its name for messages. Throws Error for what is no JSON, naming
/// the line, for an object with a key twice, and for nesting beyond all files that are meant.
nlohmann::json parse_json(const std::string& text, const std::string& place);

}  // namespace unlatch::models
