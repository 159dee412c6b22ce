#include "tools/placed_errors.h"

namespace unlatch::tools {
namespace {

bool in_scenario(const Arguments& arguments, std::string_view name) {
  return arguments.has(name) && !arguments.place(name).starts_with("--");
}

/// Empty where all settings are flags.
std::string scenario_of(const Arguments& arguments) {
  for (const std::string& name : arguments.names()) {
    if (!in_scenario(arguments, name)) continue;
    const std::string place = arguments.place(name);
    return place.substr(0, place.rfind(" line "));
  }
  return "";
}

}  // namespace

std::string placed(const Arguments& arguments, std::string_view name, const std::string& message) {
  const std::string flag = fmt::format("--{}", name), quoted = fmt::format("{} '", name);
  const bool names_flag = message.starts_with(flag + " ") || message.starts_with(flag + ":");
  const std::string place = arguments.place(name);
  if (!in_scenario(arguments, name)) return message;
  if (message.starts_with(scenario_of(arguments) + " line ")) return message;
  if (names_flag) return place + message.substr(flag.size());
  if (message.starts_with(quoted)) return place + message.substr(name.size());
  return fmt::format("{}: {}", place, message);
}

std::string placed(const Arguments& arguments, const std::string& message) {
  const std::string scenario = scenario_of(arguments);
  if (scenario.empty() || !message.starts_with("--")) return message;
  const std::string name = message.substr(2, message.find_first_of(" :", 2) - 2);
  if (!arguments.has(name)) return fmt::format("{}: {}", scenario, message);
  return placed(arguments, name, message);
}

}  // namespace unlatch::tools
