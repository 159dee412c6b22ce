// Every variant of every schedule in the catalogue, made from its keys, so that a new schedule gets
// every property test by its registry line.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "schedules/registry.h"

namespace unlatch::testing_support {

/// One value a stage, joined as a specification wants it: value(k), k stages below the last.
template <class Value>
std::string per_stage(int stages, const Value& value) {
  std::string text;
  for (int k = 0; k < stages; ++k) {
    text += fmt::format("{}{}", k == 0 ? "" : "/", k + 1 < stages ? value(stages - 1 - k) : 0);
  }
  return text;
}

/// Values of one key worth trying; "" leaves it to its default.
inline std::vector<std::string> values(const Key& key, int stages) {
  std::vector<std::string> result{""};
  // What changes numbers only, not the graph.
  for (const std::string_view name :
       {"compensation", "lambda", "decay", "compression", "ratio", "momentum", "clip", "step",
        "glu", "local_rate", "local_decay", "shrink", "synth_lr", "conditional", "rescale",
        "correct"}) {
    if (key.name == name) return result;
  }
  if (key.name == inside_key) return {"", "gpipe", "zb-h1"};
  if (key.name == "bound") result.insert(result.end(), {"0", "2"});
  if (key.name == "steps") result.push_back("2");
  if (key.name == "delay") result.insert(result.end(), {"1", "2"});
  if (key.name == "warmup") result.insert(result.end(), {"0", "3"});
  if (key.type == Key::Type::number) result.push_back("0.5");
  if (key.name == "delta") result.insert(result.end(), {"2", "3"});
  if (key.name == "buffer") result.push_back("3");
  if (key.name == "accumulate") result.push_back("3");
  if (key.name == "group") result.push_back("5");
  if (key.name == "staleness") {
    result.push_back(per_stage(stages, [](int) { return 0; }));
    result.push_back(per_stage(stages, [](int d) { return 3 * d; }));
    result.push_back(per_stage(stages, [](int d) { return d; }));
  }
  for (std::size_t w = key.type == Key::Type::word ? 1 : 0; w < key.words.size(); ++w) {
    result.emplace_back(key.words[w]);
  }
  return result;
}

/// False for a shape that the method refuses, such as too few micro-batches.
inline bool runs(const ScheduleSpec& spec, const Shape& shape) {
  try {
    spec.options(shape);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// The first number of micro-batches that the schedule runs at this shape: of those preferred, then
/// of 1 to 24; 0 if it runs at none.
inline int parts_that_run(const ScheduleSpec& spec, Shape shape,
                          const std::vector<int>& preferred) {
  const auto fits = [&](int parts) {
    shape.micro_batches = parts;
    return runs(spec, shape);
  };
  for (const int parts : preferred) {
    if (fits(parts)) return parts;
  }
  constexpr int most = 24;
  for (int parts = 1; parts <= most; ++parts) {
    if (fits(parts)) return parts;
  }
  return 0;
}

/// Specifications that are valid for this number of stages, with some number of micro-batches.
inline std::vector<std::string> variants(const Method& method, int stages, int chunks = 1) {
  std::vector<std::string> all{""};
  for (const Key& key : method.keys) {
    std::vector<std::string> longer;
    for (const std::string& before : all) {
      for (const std::string& value : values(key, stages)) {
        longer.push_back(value.empty() ? before
                                       : fmt::format("{}{}{}={}", before, before.empty() ? "" : ",",
                                                     key.name, value));
      }
    }
    all = longer;
  }
  std::vector<std::string> valid;
  for (const std::string& keys : all) {
    const std::string text = fmt::format("{}{}{}", method.name, keys.empty() ? "" : ":", keys);
    // Left out: what the method refuses, such as unbounded queues in lock-step.
    const ScheduleSpec spec = ScheduleSpec::parse(text);
    const Shape shape{.stages = stages, .chunks = chunks};
    if (parts_that_run(spec, shape, {1, 2 * stages, 12}) > 0) valid.push_back(text);
  }
  return valid;
}

}  // namespace unlatch::testing_support
