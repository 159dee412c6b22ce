#include "tools/outputs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "schedules/error.h"
#include "tools/placed_errors.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {
namespace {

namespace fs = std::filesystem;

/// Of a relative path without a directory that exists, nothing is resolved: absolute first.
std::string whole_path(const std::string& path) {
  std::error_code failed;
  const auto whole = fs::weakly_canonical(fs::absolute(path, failed), failed).string();
  return failed ? path : whole;
}

bool is_device(const std::string& whole_path) {
  return whole_path.starts_with("/dev/") || whole_path.starts_with("/proc/");
}

/// Whether a setting's value ("FILE", "file:FILE", "empirical:file=FILE", "numpy:FOLDER") names
/// that file or the folder that it is in.
bool names_file(std::string_view value, const std::string& file) {
  std::error_code none_there;
  const fs::path folder = fs::absolute(file, none_there).parent_path();
  const auto is_it = [&](const fs::path& named) {
    return fs::equivalent(named, file, none_there) || fs::equivalent(named, folder, none_there);
  };
  while (true) {
    if (is_it(value)) return true;
    const std::size_t end = value.find_first_of(":=,");
    if (end == std::string_view::npos) return false;
    if (is_it(value.substr(0, end))) return true;
    value.remove_prefix(end + 1);
  }
}

/// How messages call what the file is read for; empty when nothing reads it.
std::string reader_of(const std::string& file, const Arguments& arguments,
                      const std::vector<std::string_view>& outputs) {
  std::error_code none_there;
  if (!fs::is_regular_file(file, none_there)) return "";
  for (const std::string& name : arguments.names()) {
    if (std::ranges::find(outputs, name) != outputs.end()) continue;
    const auto values = arguments.all(name);
    const bool reads =
        std::ranges::any_of(values, [&](const auto& value) { return names_file(value, file); });
    if (reads) return arguments.place(name);
  }
  if (fs::equivalent(arguments.scenario(), file, none_there)) return "the command as its scenario";
  return "";
}

void require_usable(const Arguments& arguments, std::string_view name, const std::string& path,
                    const std::vector<std::string_view>& outputs) {
  if (path.empty()) arguments.refuse(name, path, "must name a file to write");
  if (path == "-") {
    arguments.refuse(name, path,
                     "must name a file; standard output is /dev/stdout, a file '-' ./-");
  }
  const std::string reader = reader_of(path, arguments, outputs);
  if (!reader.empty()) {
    arguments.refuse(name, path, fmt::format("is read by {}; give it another name", reader));
  }
}

}  // namespace

void require_outputs(const Arguments& arguments, const std::vector<std::string_view>& files,
                     const std::vector<std::string_view>& folders) {
  std::vector<std::string_view> outputs = files;
  outputs.insert(outputs.end(), folders.begin(), folders.end());
  std::map<std::string, std::string_view> seen;
  for (const std::string_view name : outputs) {
    const auto path = arguments.text(name);
    if (!path) continue;
    require_usable(arguments, name, *path, outputs);
    const std::string whole = whole_path(*path);
    if (is_device(whole)) continue;
    const auto [other, added] = seen.try_emplace(whole, name);
    require(added, "{} and {} both write '{}'; give each a file of its own",
            arguments.place(other->second), arguments.place(name), *path);
  }
  for (const std::string_view name : files) {
    const auto path = arguments.text(name);
    std::error_code none_there;
    if (!path || fs::is_fifo(*path, none_there))
      continue;  // its reader would take this for the end
    reading(arguments, name, [&] { AtomicFile probe(*path); });
  }
}

}  // namespace unlatch::tools
