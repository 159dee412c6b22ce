// Loading a library whose own libraries lie where the loader does not look, such as NVIDIA's in a
// Python's wheels.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace unlatch::exec {

/// What decides where NVIDIA's libraries are looked for.
struct SearchPlaces {
  std::string listed;                ///< UNLATCH_CUDA_PATH: folders, with colons between
  std::string path;                  ///< PATH: beside each python3 on it are its packages
  std::string home;                  ///< HOME, for the packages of the user
  std::filesystem::path root = "/";  ///< of usr/local and usr/lib
};

/// The places in the environment of this process.
SearchPlaces environment_places();

/// Folders that exist, in this order: those listed; usr/local/cuda/lib64 and those of other
/// versions, newest first; nvidia/*/lib in the packages of each Python, newest first.
std::vector<std::filesystem::path> device_folders(const SearchPlaces& places);

/// dlopen() of a library. One that the loader misses on the way is loaded from the first folder
/// that has a file of its name. Throws Error that names what is missing.
void* load_with(const std::filesystem::path& library,
                const std::vector<std::filesystem::path>& folders);

}  // namespace unlatch::exec
