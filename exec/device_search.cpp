#include "exec/device_search.h"

#include <dlfcn.h>
#include <glob.h>
#include <string.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>

#include "schedules/error.h"

namespace unlatch::exec {
namespace {

using std::filesystem::path;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> between_colons(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t colon = std::min(text.find(':', at), text.size());
    if (colon > at) parts.push_back(text.substr(at, colon - at));
    at = colon + 1;
  }
  return parts;
}

/// What matches, the highest version first.
std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> names;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  std::ranges::sort(names, [](const std::string& a, const std::string& b) {
    return strverscmp(a.c_str(), b.c_str()) > 0;
  });
  return names;
}

/// Patterns of the folders that a Python keeps packages in.
std::vector<std::string> package_folders(const SearchPlaces& places) {
  std::vector<std::string> patterns;
  std::error_code failed;
  for (const path folder : between_colons(places.path)) {
    const path python = folder / "python3";
    if (!folder.is_absolute() || !std::filesystem::exists(python, failed)) continue;
    // A virtual environment has a link to the Python that it was made with.
    for (const path& prefix : {folder, std::filesystem::canonical(python, failed).parent_path()}) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        patterns.push_back((prefix / "../lib/python3*" / packages).lexically_normal());
      }
    }
  }
  if (!places.home.empty()) {
    patterns.push_back(path(places.home) / ".local/lib/python3*/site-packages");
  }
  for (const char* folder :
       {"usr/local/lib/python3*/site-packages", "usr/local/lib/python3*/dist-packages",
        "usr/lib/python3/dist-packages"}) {
    patterns.push_back(places.root / folder);
  }
  return patterns;
}

/// The name at the head of "libx.so.1: cannot open shared object file: ..".
std::optional<std::string> missing_library(const std::string& error) {
  const std::size_t colon = error.find(": cannot open shared object file");
  if (colon == std::string::npos || error.find('/') < colon) return std::nullopt;
  return error.substr(0, colon);
}

struct Close {
  void operator()(void* handle) const { dlclose(handle); }
};
using Handle = std::unique_ptr<void, Close>;

class Loader {
 public:
  Loader(const path& library, const std::vector<path>& folders)
      : library_(library), folders_(folders) {}

  /// What is brought stays loaded as long as what needs it.
  Handle load(const path& file) {
    std::vector<Handle> brought;
    while (true) {
      if (void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return Handle(handle);
      const std::string error = dlerror();
      const auto name = missing_library(error);
      if (!name || !asked_.insert(*name).second) refuse(error);
      const auto folder = std::ranges::find_if(folders_, [&](const path& at) {
        std::error_code failed;
        return std::filesystem::exists(at / *name, failed);
      });
      if (folder == folders_.end()) {
        refuse(fmt::format("{} is not found; name its folder in UNLATCH_CUDA_PATH", *name));
      }
      brought.push_back(load(*folder / *name));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    fail("{} cannot be loaded: {}; --device cpu works without it", library_.string(), why);
  }

  const path& library_;
  const std::vector<path>& folders_;
  std::set<std::string> asked_;
};

}  // namespace

SearchPlaces environment_places() {
  return {
      .listed = variable("UNLATCH_CUDA_PATH"), .path = variable("PATH"), .home = variable("HOME")};
}

std::vector<path> device_folders(const SearchPlaces& places) {
  std::vector<path> folders;
  const auto add = [&](const path& folder) {
    std::error_code failed;
    const bool exists = std::filesystem::is_directory(folder, failed);
    if (exists && std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
  };
  for (const std::string& folder : between_colons(places.listed)) add(folder);
  add(places.root / "usr/local/cuda/lib64");
  for (const std::string& folder : matches(places.root / "usr/local/cuda*/lib64")) add(folder);
  for (const std::string& pattern : package_folders(places)) {
    for (const std::string& folder : matches(fmt::format("{}/nvidia/*/lib", pattern))) add(folder);
  }
  return folders;
}

void* load_with(const path& library, const std::vector<path>& folders) {
  return Loader(library, folders).load(library).release();
}

}  // namespace unlatch::exec
