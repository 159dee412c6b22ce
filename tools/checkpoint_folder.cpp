#include "tools/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <system_error>

#include "schedules/error.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view before_step = "step-";
constexpr std::string_view after_step = ".safetensors";

std::optional<int> step_of(std::string_view name) {
  if (!name.starts_with(before_step) || !name.ends_with(after_step)) return std::nullopt;
  name.remove_prefix(before_step.size());
  name.remove_suffix(std::min(after_step.size(), name.size()));
  int step = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool whole = failure == std::errc{} && end == name.data() + name.size();
  return whole && step > 0 ? std::optional(step) : std::nullopt;
}

}  // namespace

std::string CheckpointFolder::file(int step) const {
  return (fs::path(path_) / fmt::format("{}{}{}", before_step, step, after_step)).string();
}

std::vector<int> CheckpointFolder::steps() const {
  std::vector<int> steps;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(path_, failure)) {
    if (const auto step = step_of(entry.path().filename().string())) steps.push_back(*step);
  }
  std::ranges::sort(steps, std::greater<>{});
  return steps;
}

void CheckpointFolder::prepare() const {
  std::error_code failure;
  fs::create_directories(path_, failure);
  require(fs::is_directory(path_), "--checkpoint {}: cannot make that folder: {}", path_,
          failure ? failure.message() : "there is a file of that name");
  const AtomicFile probe(file(1));
}

void CheckpointFolder::save(int step, const std::function<void(std::ostream&)>& write) {
  try {
    AtomicFile out(file(step));
    write(out);
    out.commit();
  } catch (const Error& error) {
    throw RunError(fmt::format(
        "the checkpoint of step {} was not saved: {}; {}", step, error.what(),
        newest_ ? fmt::format("'{}' is still there to go on from by --resume", file(*newest_))
                : "there is none before it"));
  }
  for (const int older : steps()) {
    std::error_code ignored;
    if (older != step && older != newest_) fs::remove(file(older), ignored);
  }
  newest_ = step;
}

}  // namespace unlatch::tools
