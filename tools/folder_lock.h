// FolderLock: a folder that one process at a time writes to.
#pragma once

#include <string>

namespace unlatch::tools {

/// The system lifts it when the process ends, however it ends. Where a file system has no locks,
/// nothing is locked.
class FolderLock {
 public:
  /// Throws Error when another process has it.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace unlatch::tools
