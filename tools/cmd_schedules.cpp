// unlatch schedules: the catalogue.
#include <fmt/format.h>

#include "schedules/registry.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/table.h"
#include "tools/terminal.h"

namespace unlatch::tools {
namespace {

std::string locks_text(const Locks& locks) {
  std::vector<std::string_view> open;
  if (locks.forward) open.emplace_back("forward");
  if (locks.backward) open.emplace_back("backward");
  if (locks.update) open.emplace_back("update");
  return open.empty() ? "none" : fmt::format("{}", fmt::join(open, ", "));
}

/// "recompute=never|except_last|always"; what the specification accepts, the default first.
std::string key_text(const Key& key) {
  switch (key.type) {
    case Key::Type::word:
      return fmt::format("{}={}", key.name, fmt::join(key.words, "|"));
    case Key::Type::number:
      return fmt::format("{}={}", key.name, key.default_number);
    case Key::Type::per_stage:
      break;
  }
  std::string values = "a/b/..";
  for (std::string_view word : key.words) values += fmt::format("|{}", word);
  return fmt::format("{}={}", key.name, values);
}

std::string keys_text(const Method& method) {
  std::vector<std::string> texts;
  for (const Key& key : method.keys) texts.push_back(key_text(key));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Json to_json(const Key& key) {
  Json json{{"name", key.name}, {"help", key.help}};
  if (key.type == Key::Type::number) {
    json["default"] = key.default_number;
  } else {
    json["values"] = key.words;
  }
  if (key.type == Key::Type::per_stage) json["list"] = "one whole number a stage";
  return json;
}

Json to_json(const Method& method) {
  Json keys = Json::array();
  for (const Key& key : method.keys) keys.push_back(to_json(key));
  return {{"name", method.name},
          {"title", method.title},
          {"source", method.source},
          {"breaks",
           {{"forward_lock", method.breaks.forward},
            {"backward_lock", method.breaks.backward},
            {"update_lock", method.breaks.update}}},
          {"synchronous", method.synchronous},
          {"uses_microbatches", method.uses_micro_batches},
          {"staleness", method.staleness},
          {"memory", method.memory},
          {"keys", keys}};
}

Table catalogue() {
  Table table({"<name", "<method", "<source", "<locks broken", "<forward staleness of stage k",
               "<kept by rank k", "<keys (default first)"});
  for (const Method& method : methods()) {
    table.add({std::string(method.name), std::string(method.title), std::string(method.source),
               locks_text(method.breaks), std::string(method.staleness), std::string(method.memory),
               keys_text(method)});
  }
  return table;
}

/// A paragraph a method: the table of the README is too wide for a terminal.
std::string catalogue_text() {
  std::string text;
  for (const Method& method : methods()) {
    text += fmt::format("{}  {}\n", bold(fmt::format("{:<6}", method.name)), method.title);
    text += fmt::format("        source        {}\n", method.source);
    text += fmt::format("        locks broken  {}\n", locks_text(method.breaks));
    text += fmt::format("        staleness     {}\n", method.staleness);
    text += fmt::format("        memory        {}\n", method.memory);
    for (const Key& key : method.keys) {
      text += fmt::format("        :{:<40} {}\n", key_text(key), key.help);
    }
  }
  return text;
}

int run(const Arguments& arguments) {
  if (arguments.has("json")) {
    Json all = Json::array();
    for (const Method& method : methods()) all.push_back(to_json(method));
    print_json({{"schedules", all}});
  } else if (arguments.has("markdown")) {
    print(catalogue().markdown());
  } else {
    print(catalogue_text());
  }
  return 0;
}

}  // namespace

Command schedules_command() {
  return {
      .name = "schedules",
      .summary = "List the schedules: source, locks broken, staleness and memory",
      .groups = {{"Output", {{"markdown", "", "Print a Markdown table", Flag::Kind::presence}}}},
      .run = run};
}

}  // namespace unlatch::tools
