// CheckpointFolder: the checkpoints of one training run, of which the two newest are kept.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace unlatch::tools {

/// Files named step-N.safetensors; whatever else is in the folder is left alone.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const& { return path_; }
  std::string file(int step) const;
  /// Of the files that are there, the newest first; none where there is no such folder.
  std::vector<int> steps() const;

  /// Makes the folder. Throws Error if it cannot be made or written to.
  void prepare() const;
  /// A file appears whole or not at all, and until it does the ones before it stay. Afterwards only
  /// it and the one that was saved or used before are left. Throws RunError that says why it could
  /// not be written and which checkpoint there is.
  void save(int step, const std::function<void(std::ostream&)>& write);
  /// The run goes on from this one.
  void use(int step) { newest_ = step; }

 private:
  std::string path_;
  std::optional<int> newest_;  ///< saved or used
};

}  // namespace unlatch::tools
