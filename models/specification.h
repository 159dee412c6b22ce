// Specification: text of the form NAME[:argument][,key=value...], taken apart with strict errors.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace unlatch::models {

/// One specification; `what` names its sort in messages ("model", "optimizer").
class Specification {
 public:
  /// Throws Error for an empty name, an empty item, a key given twice and a second item without
  /// "=".
  Specification(std::string_view what, std::string_view text);

  const std::string& name() const { return name_; }
  /// The item without "=": a shape, for instance. Empty if there is none.
  const std::string& argument() const { return argument_; }

  /// Throws Error with the closest names unless the name is one of these.
  void allow_names(const std::vector<std::string_view>& names) const;
  /// Throws Error with the closest keys unless all keys given are among these.
  void allow_keys(const std::vector<std::string_view>& keys) const;
  /// Throws Error if an argument was given.
  void refuse_argument() const;

  /// The value of a key, or the given default. Numbers must be finite and in [least, most].
  std::string word(std::string_view key, const std::vector<std::string_view>& words) const;
  double number(std::string_view key, double otherwise, double least, double most) const;
  int whole(std::string_view key, int otherwise, int least, int most) const;
  /// Whole numbers with slashes between them, each in [least, most].
  std::vector<int> list(std::string_view key, std::vector<int> otherwise, int least,
                        int most) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

 private:
  const std::string* find(std::string_view key) const;

  std::string what_;
  std::string text_;
  std::string name_;
  std::string argument_;
  std::vector<std::pair<std::string, std::string>> values_;
};

/// The parts between separators, empty ones included: "a//b" has three.
std::vector<std::string_view> split(std::string_view text, char separator);
/// The whole text as a number; false if it is none or does not fit. The same in every locale.
bool parse_whole(std::string_view text, int& value);
bool parse_number(std::string_view text, double& value);

}  // namespace unlatch::models
