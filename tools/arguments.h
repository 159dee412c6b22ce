// Arguments: what one command was given, by flags or by a scenario file, with typed readers whose
// errors name the setting, the value and the rule.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unlatch::tools {

/// The values of one setting and where they were written.
struct Setting {
  std::vector<std::string> values;
  std::string place;  ///< "--stages", or "run.json line 3, stages"
};

class Arguments {
 public:
  /// A setting that is there already stays: flags are added before a scenario's keys.
  void add(const std::string& name, Setting setting);
  /// The file whose keys stand for flags.
  void set_scenario(std::string path) { scenario_ = std::move(path); }
  void add_positional(std::string text) { positionals_.push_back(std::move(text)); }

  bool has(std::string_view name) const { return settings_.find(name) != settings_.end(); }
  /// Of all settings, sorted.
  std::vector<std::string> names() const;
  /// The one value, or nothing.
  std::optional<std::string> text(std::string_view name) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  /// All values of a flag that may be repeated.
  std::vector<std::string> all(std::string_view name) const;
  /// How messages call a setting: its place, or "--name" for one not given.
  std::string place(std::string_view name) const;
  const std::vector<std::string>& positionals() const& { return positionals_; }
  const std::string& scenario() const& { return scenario_; }  ///< empty: none was given

  /// Throws Error that names place, value and rule.
  [[noreturn]] void refuse(std::string_view name, std::string_view value,
                           std::string_view rule) const;

  /// Whole number between least and most.
  int whole(std::string_view name, int otherwise, int least = 1,
            int most = std::numeric_limits<int>::max()) const;
  std::uint64_t seed() const;
  /// Finite number between least and most (infinity: no upper limit).
  double real(std::string_view name, double otherwise, double least,
              double most = std::numeric_limits<double>::infinity()) const;
  bool yes(std::string_view name, bool otherwise) const;
  /// One of the words, the first by default.
  std::string choice(std::string_view name, const std::vector<std::string_view>& words) const;
  std::optional<std::int64_t> size(std::string_view name) const;
  /// `count` sizes, one value standing for all. Empty when not given.
  std::vector<std::int64_t> sizes(std::string_view name, int count) const;
  /// A list of whole numbers between least and most, each once. Empty when not given.
  std::vector<int> wholes(std::string_view name, int least = 0,
                          int most = std::numeric_limits<int>::max()) const;
  /// A list of finite numbers. Empty when not given.
  std::vector<double> reals(std::string_view name) const;

 private:
  std::map<std::string, Setting, std::less<>> settings_;
  std::vector<std::string> positionals_;
  std::string scenario_;
};

}  // namespace unlatch::tools
