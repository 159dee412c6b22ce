#include "exec/device_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "exec/device_search.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

/// Beside the program, where it is installed, and where it is built; or where the variable says.
std::optional<std::filesystem::path> library_path() {
  const char* given = std::getenv("UNLATCH_CUDA_LIBRARY");
  if (given != nullptr && *given != '\0') return given;
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return std::nullopt;
  for (const char* folder : {".", "../lib", "../lib/unlatch", "../exec"}) {
    const auto path = program.parent_path() / folder / cuda_library_name;
    if (std::filesystem::exists(path, failed)) return path;
  }
  return std::nullopt;
}

const DeviceLibrary& load() {
  const auto path = library_path();
  require(path.has_value(),
          "this unlatch was built without CUDA ({} is not beside it); build it whole, not the "
          "program alone, with `cmake --preset cuda` where CUDA 12 or newer, cuBLAS, cuDNN 9 and "
          "NCCL are installed, or use --device cpu",
          cuda_library_name);
  void* library = load_with(*path, device_folders(environment_places()));
  using Entry = const DeviceLibrary* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, device_library_entry));
  require(entry != nullptr, "{} is no CUDA library of unlatch: it has no {}", path->string(),
          device_library_entry);
  return *entry();
}

}  // namespace

const DeviceLibrary& cuda_library() {
  static const DeviceLibrary& library = load();
  return library;
}

}  // namespace unlatch::exec
