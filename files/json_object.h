// JsonObject: one object of a document, whose keys are all known and read by name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace unlatch::files {

/// A view; the JSON must outlive it. Every reader throws Error that names the object and the key.
class JsonObject {
 public:
  JsonObject(const nlohmann::json& json, std::string name,
             const std::vector<std::string_view>& known);

  bool has(const char* key) const;
  const nlohmann::json& at(const char* key) const;
  int whole(const char* key, int least, int most) const;
  int whole(const char* key, int least, int most, int otherwise) const;
  bool yes(const char* key, bool otherwise) const;
  double real(const char* key, double otherwise) const;
  std::string text(const char* key) const;
  /// A list of exactly that many values, one a rank or stage.
  const nlohmann::json& list(const char* key, int size, std::string_view one_a) const;

 private:
  const nlohmann::json& json_;
  std::string name_;
};

/// A whole number between least and most.
int whole_value(const nlohmann::json& value, std::string_view name, int least, int most);

}  // namespace unlatch::files
