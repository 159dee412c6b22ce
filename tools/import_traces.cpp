#include "tools/import_traces.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "files/parse_action.h"
#include "schedules/error.h"
#include "traces/input_file.h"
#include "traces/profiler_trace.h"

namespace unlatch::tools {
namespace {

using files::Action;
using files::ActionKind;

constexpr std::string_view prefix = "PP:";
constexpr std::array compute_kinds = {ActionKind::forward, ActionKind::backward,
                                      ActionKind::backward_input, ActionKind::backward_weight};

std::vector<std::string> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code failed;
    if (!std::filesystem::is_directory(path, failed)) {
      files.push_back(path);
      continue;
    }
    const auto before = static_cast<std::ptrdiff_t>(files.size());
    for (const auto& entry : std::filesystem::directory_iterator(path, failed)) {
      const std::string name = entry.path().string();
      if (name.ends_with(".json") || name.ends_with(".json.gz")) files.push_back(name);
    }
    require(!failed, "cannot read '{}': {}", path, failed.message());
    require(static_cast<std::ptrdiff_t>(files.size()) > before,
            "'{}' holds no file .json or .json.gz", path);
    std::sort(files.begin() + before, files.end());
  }
  return files;
}

/// Collects the ranges of all files by stage and kind of task.
class Importer {
 public:
  explicit Importer(int warm_up) : warm_up_(warm_up) {}

  void add(const std::string& path) {
    const ProfilerTrace trace = parse_profiler_trace(read_text(path), path, prefix);
    require(!trace.ranges.empty(),
            "{}: no range is named {}<action>; it must be a PyTorch profile of a schedule of "
            "torch.distributed.pipelining that marks its actions, as those of several stages a "
            "rank and those from CSV files do",
            path, prefix);
    note_rank(trace);
    bool any = false;
    for (const NamedRange& range : trace.ranges) any = add(trace, range) || any;
    require(any, "{}: none of its ranges {}<action> is an F, B, I or W", path, prefix);
    if (!trace.has_device) on_host_.push_back(path);
    result_.profile.sources.push_back(path);
  }

  ImportedStages finish() {
    require_all_stages();
    result_.profile.warm_up = warm_up_;
    for (auto& [stage, kinds] : samples_) result_.profile.stages.push_back(measured(stage, kinds));
    note_oddities();
    return std::move(result_);
  }

 private:
  using Samples = std::map<ActionKind, std::vector<std::int64_t>>;

  void note_rank(const ProfilerTrace& trace) {
    world_size_ = std::max(world_size_, trace.world_size);
    if (trace.rank < 0) return;
    const auto [first, added] = ranks_.try_emplace(trace.rank, trace.source);
    require(added, "{}: it is of rank {}, as {} is; give each rank's profile once", trace.source,
            trace.rank, first->second);
  }

  /// True for a task.
  bool add(const ProfilerTrace& trace, const NamedRange& range) {
    if (range.name.starts_with('(')) {  // F and B side by side: what of it is which is not marked
      ++overlapped_;
      return false;
    }
    Action action;
    bool old_whole = false;
    const std::string_view fault = files::parse_action(range.name, action, old_whole);
    require(fault.empty(), "{}: the range '{}{}' is no action of a schedule: {}", trace.source,
            prefix, range.name, fault);
    note_neighbour(trace, action);
    if (!files::is_compute(action.kind)) return false;
    // What launches nothing takes no time on the device.
    const auto& lengths = trace.has_device ? range.on_device : range.on_host;
    const auto steps = static_cast<int>(std::max(lengths.size(), range.on_host.size()));
    require(steps > warm_up_,
            "{}: the range '{}{}' is there {} time{}, once a step, and the first {} are left out "
            "for warming up; profile more steps or lower --warm-up",
            trace.source, prefix, range.name, steps, steps == 1 ? "" : "s", warm_up_);
    result_.left_out += std::min(warm_up_, static_cast<int>(lengths.size()));
    auto& samples = samples_[action.stage.value][action.kind];
    for (std::size_t i = static_cast<std::size_t>(warm_up_); i < lengths.size(); ++i) {
      samples.push_back(lengths[i].count());
    }
    return true;
  }

  /// A message tells of a stage that may be in no file.
  void note_neighbour(const ProfilerTrace& trace, const Action& action) {
    if (!files::is_message(action.kind)) return;
    const int stage = files::partner(action).stage.value;
    if (stage >= 0)
      neighbours_.try_emplace(stage, fmt::format("{} ({})", trace.source, label(action)));
  }

  void require_all_stages() const {
    const auto file_with = [&](int stage) {
      const auto found = neighbours_.find(stage);
      return found == neighbours_.end()
                 ? std::string()
                 : fmt::format("; {} exchanges messages with it", found->second);
    };
    int last = samples_.rbegin()->first;
    if (!neighbours_.empty()) last = std::max(last, neighbours_.rbegin()->first);
    for (int k = 0; k <= last; ++k) {
      require(samples_.contains(k),
              "stage {} is in none of the {} profile{}{}; give one of every rank", k,
              result_.profile.sources.size(), result_.profile.sources.size() == 1 ? "" : "s",
              file_with(k));
    }
  }

  static std::optional<StageMeasurement> measured(const Samples& kinds, ActionKind kind) {
    const auto found = kinds.find(kind);
    if (found == kinds.end()) return std::nullopt;
    std::vector<std::int64_t> samples = found->second;
    if (samples.empty()) samples.push_back(0);
    const auto count = static_cast<int>(samples.size());
    return StageMeasurement{.time = exec::measurement_of(std::move(samples)), .samples = count};
  }

  StageProfile measured(int stage, const Samples& kinds) {
    const StageProfile profile{.forward = measured(kinds, ActionKind::forward),
                               .backward = measured(kinds, ActionKind::backward),
                               .input_gradient = measured(kinds, ActionKind::backward_input),
                               .weight_gradient = measured(kinds, ActionKind::backward_weight)};
    require(profile.forward.has_value(), "stage {} has no F in the profiles{}", stage,
            overlapped_text());
    require(profile.backward || profile.is_split(),
            "stage {} has no B, and no I and W, in the profiles{}", stage, overlapped_text());
    require(profile.input_gradient.has_value() == profile.weight_gradient.has_value(),
            "stage {} has {} in the profiles; they are the two halves of B", stage,
            profile.input_gradient ? "I but no W" : "W but no I");
    for (const ActionKind kind : compute_kinds) {
      const auto found = kinds.find(kind);
      if (found == kinds.end() || !found->second.empty()) continue;
      result_.notes.push_back(fmt::format("{}{} launched nothing on the GPU and is taken to cost 0",
                                          stage, files::letter(kind)));
    }
    return profile;
  }

  std::string overlapped_text() const {
    return overlapped_ == 0 ? "" : " (OVERLAP_F_B ranges do not say what of them is which)";
  }

  void note_oddities() {
    const auto files = static_cast<int>(result_.profile.sources.size());
    if (world_size_ > files) {
      result_.notes.push_back(fmt::format(
          "{} of {} ranks were read; what only the others hold is missing", files, world_size_));
    }
    if (!on_host_.empty()) {
      result_.notes.push_back(
          fmt::format("no GPU ranges in {}: its times are those of the host, waiting for messages "
                      "included",
                      fmt::join(on_host_, ", ")));
    }
    if (overlapped_ > 0) {
      result_.notes.push_back(fmt::format("{} OVERLAP_F_B ranges are left out", overlapped_));
    }
  }

  int warm_up_;
  int world_size_ = -1;
  int overlapped_ = 0;
  std::map<int, Samples> samples_;         ///< by stage
  std::map<int, std::string> ranks_;       ///< and its file
  std::map<int, std::string> neighbours_;  ///< stages that messages name, and who does
  std::vector<std::string> on_host_;
  ImportedStages result_;
};

}  // namespace

ImportedStages import_traces(const std::vector<std::string>& paths, int warm_up) {
  const std::vector<std::string> files = files_of(paths);
  for (auto file = files.begin(); file != files.end(); ++file) {
    std::error_code unreadable;  // who reads it says so
    const bool again = std::any_of(files.begin(), file, [&](const std::string& other) {
      return std::filesystem::equivalent(other, *file, unreadable);
    });
    require(!again, "'{}' is given twice; give each rank's profile once", *file);
  }
  Importer importer(warm_up);
  for (const std::string& path : files) importer.add(path);
  return importer.finish();
}

}  // namespace unlatch::tools
