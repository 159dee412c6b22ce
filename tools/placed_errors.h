// Errors about settings, told to people who wrote them in a scenario file: they name its line.
#pragma once

#include <string>
#include <string_view>

#include "schedules/error.h"
#include "tools/arguments.h"

namespace unlatch::tools {

/// A message that begins with a flag ("--cluster 'x': ..") begins with the line where a scenario
/// file holds that setting instead, or with the file that lacks it. Other messages stay.
std::string placed(const Arguments& arguments, const std::string& message);
/// A message about one setting: it begins with the line in any case, if a scenario file holds it.
std::string placed(const Arguments& arguments, std::string_view name, const std::string& message);

/// What `read` makes of a setting; its Error is placed().
template <class Read>
auto reading(const Arguments& arguments, std::string_view name, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(placed(arguments, name, error.what()));
  }
}

}  // namespace unlatch::tools
