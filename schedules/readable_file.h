// What a path leads to, for those who read it to its end.
#pragma once

#include <cstddef>
#include <string>

namespace unlatch {

class ReadableFile {
 public:
  /// Throws Error for a directory, and for a device or a socket, which may never end. What is not
  /// there is for the reader to say.
  explicit ReadableFile(const std::string& path);

  /// Of a pipe, which may not end either. Throws Error beyond 1 GiB.
  void require_bounded(std::size_t bytes) const;
  /// Where memory did not do for what was read.
  [[noreturn]] void fail_too_large() const;

 private:
  std::string path_;
  bool is_pipe_;
};

}  // namespace unlatch
