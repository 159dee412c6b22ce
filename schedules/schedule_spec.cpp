// Options and ScheduleSpec: reading NAME[:key=value[,key=value...]].
#include <algorithm>
#include <charconv>
#include <cmath>

#include "schedules/error.h"
#include "schedules/registry.h"
#include "schedules/replicas.h"
#include "schedules/suggest.h"

namespace unlatch {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(trimmed(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

template <class Number>
bool parse_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

const Key& find_key(const Method& method, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Key& key : method.keys) {
    if (key.name == name) return key;
    names.push_back(key.name);
  }
  if (names.empty()) {
    fail("schedule '{}' has no keys, '{}' was given{}", method.name, name,
         method.synchronous && name == "staleness"
             ? "; staleness does not apply to a synchronous schedule"
             : "");
  }
  std::string list;
  for (const std::string_view known : names) list += fmt::format(" {}", known);
  fail("schedule '{}' has no key '{}'{}.{} Its keys:{}", method.name, name,
       method.synchronous && name == "staleness"
           ? "; staleness does not apply to a synchronous schedule"
           : "",
       suggest(name, names), list);
}

OptionValue parse_value(const Method& method, const Key& key, std::string_view text) {
  if (key.type != Key::Type::number) {
    for (const std::string_view word : key.words) {
      if (word == text) return std::string(word);
    }
  }
  if (key.type == Key::Type::number) {
    double number = 0;
    require(parse_number(text, number) && std::isfinite(number),
            "{}: {}='{}' is not a finite number (decimal dot)", method.name, key.name, text);
    return number;
  }
  if (key.type == Key::Type::per_stage) {
    std::vector<int> list;
    for (const std::string_view part : split(text, '/')) {
      int number = 0;
      require(parse_number(part, number) && number >= 0,
              "{}: {}='{}': '{}' is not a whole number >= 0; write one a stage, as in 4/2/0",
              method.name, key.name, text, part);
      list.push_back(number);
    }
    return list;
  }
  std::string words;
  for (const std::string_view word : key.words) words += fmt::format(" {}", word);
  fail("{}: {}='{}' is not a value of this key.{} Valid:{}", method.name, key.name, text,
       suggest(text, key.words), words);
}

void require_effect(const Method& method, const Options& options) {
  for (const Key& key : method.keys) {
    if (!key.only_with || options.number(key.name) == key.default_number) continue;
    const auto& [other, words] = *key.only_with;
    require(std::ranges::find(words, options.word(other)) != words.end(),
            "{}: {}={} has no effect without {}={}", method.name, key.name,
            options.number(key.name), other, fmt::join(words, " or "));
  }
}

std::string chunks_text(const Chunks& chunks) {
  if (chunks.most == 1) return "one stage a rank";
  if (chunks.least == chunks.most) return fmt::format("{} stages a rank", chunks.least);
  if (chunks.most == many_chunks) return fmt::format("{} or more stages a rank", chunks.least);
  return fmt::format("{} to {} stages a rank", chunks.least, chunks.most);
}

void require_chunks(const Method& method, const Shape& shape) {
  if (shape.stages % shape.chunks != 0) return;  // Schedule says what is wrong with that
  const int chunks = shape.chunks / method.copies;
  require(chunks >= method.chunks.least && chunks <= method.chunks.most,
          "{} runs {}; {} stages on {} ranks are {}", method.name, chunks_text(method.chunks),
          shape.stages_a_copy(), shape.ranks(), chunks);
}

}  // namespace

void Options::set(std::string key, OptionValue value) {
  for (auto& [name, old] : values_) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  values_.emplace_back(std::move(key), std::move(value));
}

const OptionValue* Options::find(std::string_view key) const {
  for (const auto& [name, value] : values_) {
    if (name == key) return &value;
  }
  return nullptr;
}

bool Options::is(std::string_view key, std::string_view word) const {
  const OptionValue* value = find(key);
  const std::string* text = value != nullptr ? std::get_if<std::string>(value) : nullptr;
  return text != nullptr && *text == word;
}

const std::string& Options::word(std::string_view key) const {
  return std::get<std::string>(*find(key));
}
double Options::number(std::string_view key) const { return std::get<double>(*find(key)); }
const std::vector<int>& Options::list(std::string_view key) const {
  return std::get<std::vector<int>>(*find(key));
}

int whole_number(const Options& options, std::string_view method, std::string_view key, int least,
                 int most) {
  const double asked = options.number(key);
  require(asked >= least && asked <= most && asked == std::floor(asked),
          "{}: {}={} must be a whole number, {} to {}", method, key, asked, least, most);
  return static_cast<int>(asked);
}

ScheduleSpec ScheduleSpec::parse(std::string_view text) {
  ScheduleSpec spec;
  text = trimmed(text);
  const std::size_t colon = text.find(':');
  const std::string_view name = trimmed(text.substr(0, colon));
  spec.method_ = {std::shared_ptr<const Method>(), &find_method(name)};
  spec.text_ = name;
  if (colon == std::string_view::npos) return spec;
  spec.text_ += ':';
  for (const std::string_view part : split(text.substr(colon + 1), ',')) {
    const std::size_t equals = part.find('=');
    require(equals != std::string_view::npos && !part.empty(),
            "schedule '{}': '{}' is not key=value", text, part);
    const std::string_view key = trimmed(part.substr(0, equals));
    const std::string_view value = trimmed(part.substr(equals + 1));
    parse_value(*spec.method_, find_key(*spec.method_, key), value);
    for (const auto& [given, old] : spec.given_) {
      require(given != key, "schedule '{}': key '{}' is given twice ({} and {})", text, key, old,
              value);
    }
    spec.text_ += fmt::format("{}{}={}", spec.given_.empty() ? "" : ",", key, value);
    spec.given_.emplace_back(key, value);
  }
  return spec;
}

ScheduleSpec ScheduleSpec::of(std::shared_ptr<const Method> method) {
  ScheduleSpec spec;
  spec.method_ = std::move(method);
  spec.text_ = spec.method_->name;
  return spec;
}

const Method& ScheduleSpec::pipeline() const {
  for (const auto& [key, value] : given_) {
    if (key == inside_key) return find_method(value);
  }
  return *method_;
}

Shape ScheduleSpec::effective(Shape shape) const {
  if (shape.copies > 1) return shape;
  if (!pipeline().uses_micro_batches) shape.micro_batches = 1;
  shape.copies = method_->copies * shape.replicas;
  shape.stages *= shape.copies;
  shape.chunks *= method_->copies;
  shape.micro_batches *= shape.replicas;
  return shape;
}

Options ScheduleSpec::options(const Shape& shape) const {
  Options values;
  for (const Key& key : method_->keys) {
    const auto given = std::find_if(given_.begin(), given_.end(),
                                    [&](const auto& pair) { return pair.first == key.name; });
    if (given != given_.end()) {
      values.set(std::string(key.name), parse_value(*method_, key, given->second));
    } else if (key.type == Key::Type::number) {
      values.set(std::string(key.name), key.default_number);
    } else if (key.type == Key::Type::word) {
      values.set(std::string(key.name), std::string(key.words.front()));
    }
  }
  require_effect(*method_, values);
  const Shape mine = one_replica(effective(shape));
  require_chunks(pipeline(), mine);
  if (method_->resolve) method_->resolve(mine, values);
  return values;
}

Schedule ScheduleSpec::make(const Shape& shape) const {
  const Shape whole = effective(shape);
  return replicated(method_->make(one_replica(whole), options(whole)), whole.replicas);
}

Promise ScheduleSpec::promise(const Shape& shape) const {
  const Shape whole = effective(shape);
  Promise promise = method_->promise(one_replica(whole), options(whole));
  for (std::vector<int>* list : {&promise.forward_staleness, &promise.weight_staleness,
                                 &promise.weight_versions, &promise.activations, &promise.inputs}) {
    const std::vector<int> once = *list;
    for (int r = 1; r < whole.replicas; ++r) list->insert(list->end(), once.begin(), once.end());
  }
  if (method_->promise_of_replicas) method_->promise_of_replicas(whole, options(whole), promise);
  return promise;
}

}  // namespace unlatch
