#include "tools/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "models/counting_iterator.h"
#include "schedules/error.h"
#include "schedules/suggest.h"
#include "traces/input_file.h"

namespace unlatch::tools {
namespace {

struct Entry {
  int line = 0;
  bool array = false;
  std::vector<std::string> values{};
};

/// Collects the keys of one flat object with their values as text; every fault as a message.
class FlatObject : public nlohmann::json_sax<nlohmann::json> {
 public:
  FlatObject(const Command& command, const int* line) : command_(command), line_(line) {}

  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::vector<std::string>& faults() const { return faults_; }

  bool null() override { return fault("is null; leave the key out instead"); }
  bool boolean(bool value) override { return add(value ? "yes" : "no"); }
  bool number_integer(std::int64_t value) override { return add(fmt::format("{}", value)); }
  bool number_unsigned(std::uint64_t value) override { return add(fmt::format("{}", value)); }
  bool number_float(double, const std::string& text) override { return add(text); }
  bool string(std::string& value) override { return add(value); }
  bool binary(nlohmann::json::binary_t&) override { return false; }

  bool start_object(std::size_t) override {
    if (++depth_ == 1) return true;
    if (depth_ == 2 && key_known_) fault("holds an object; a scenario is one flat object");
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return stop("it holds a list");
    if (depth_ == 1 && entry_ != nullptr) {
      if (entry_->array) fault("holds a list within a list");
      entry_->array = true;
    }
    return true;
  }
  bool end_array() override { return true; }

  bool key(std::string& name) override {
    if (depth_ != 1) return misplaced(name);
    key_ = name;
    entry_ = nullptr;
    key_known_ = check_known(name);
    if (!key_known_) return true;
    const auto [found, added] = entries_.try_emplace(name, Entry{.line = *line_});
    if (!added) {
      faults_.push_back(fmt::format("line {}: key '{}' is given twice, first in line {}", *line_,
                                    name, found->second.line));
      key_known_ = false;
      return true;
    }
    entry_ = &found->second;
    return true;
  }

  bool parse_error(std::size_t, const std::string& token,
                   const nlohmann::detail::exception&) override {
    return stop(fmt::format("line {}: this is not JSON, near '{}'", *line_, token));
  }

 private:
  bool misplaced(const std::string& name) {
    if (check_known(name)) {
      faults_.push_back(fmt::format(
          "line {}: key '{}' stands inside '{}', but a scenario is one flat object; move it out",
          *line_, name, key_));
    }
    return true;
  }
  bool check_known(const std::string& name) {
    const Flag* flag = command_.find(name);
    if (name == "json") return true;
    if (flag == nullptr) {
      auto known = command_.flag_names();
      std::erase_if(known, [](std::string_view it) { return it == "help" || it == "version"; });
      faults_.push_back(fmt::format("line {}: unknown key '{}' for 'unlatch {}'.{}", *line_, name,
                                    command_.name, suggest(name, known)));
      return false;
    }
    return true;
  }
  bool stop(std::string message) {
    faults_.push_back(std::move(message));
    return false;
  }
  bool fault(std::string_view what) {
    if (depth_ == 0) return stop("it does not hold an object");
    if (key_known_) {
      faults_.push_back(fmt::format("line {}: '{}' {}", *line_, key_, what));
      key_known_ = false;
    }
    return true;
  }
  bool add(std::string text) {
    if (depth_ == 0) return stop("it does not hold an object");
    if (entry_ != nullptr) entry_->values.push_back(std::move(text));
    return true;
  }

  const Command& command_;
  const int* line_;
  int depth_ = 0;
  std::string key_;
  bool key_known_ = false;
  Entry* entry_ = nullptr;
  std::map<std::string, Entry> entries_;
  std::vector<std::string> faults_;
};

Setting setting_of(const std::string& name, const Entry& entry, const Flag* flag,
                   const std::string& path) {
  const std::string place = fmt::format("{} line {}, {}", path, entry.line, name);
  const bool presence = flag == nullptr || flag->kind == Flag::Kind::presence;
  require(!entry.values.empty(), "{}: the list is empty", place);
  if (flag != nullptr && flag->kind == Flag::Kind::repeated) return {entry.values, place};
  if (presence) return {{entry.values.size() == 1 ? entry.values.front() : ""}, place};
  // A list is written with commas on the command line.
  return {{fmt::format("{}", fmt::join(entry.values, ","))}, place};
}

}  // namespace

void add_scenario(const Command& command, const std::string& path, Arguments& arguments) {
  const std::string text = read_text(path);
  int line = 1;
  FlatObject object(command, &line);
  const models::CountingIterator first(text.data(), &line);
  const models::CountingIterator last(text.data() + text.size(), &line);
  nlohmann::json::sax_parse(first, last, &object);
  const auto& faults = object.faults();
  require(faults.empty(), "scenario file '{}': {}", path, fmt::join(faults, "\n  "));
  for (const auto& [name, entry] : object.entries()) {
    const Flag* flag = command.find(name);
    Setting setting = setting_of(name, entry, flag, path);
    const bool presence = flag == nullptr || flag->kind == Flag::Kind::presence;
    if (presence) {
      require(setting.values.front() == "yes" || setting.values.front() == "no",
              "{}: it must be true or false", setting.place);
      if (setting.values.front() == "no") continue;
    }
    arguments.add(name, std::move(setting));
  }
}

}  // namespace unlatch::tools
