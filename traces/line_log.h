// LineLog: a text file that grows by whole lines as a run goes on, for those who follow it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace unlatch {

/// A line is in the file once add() returns, and stays there however the process ends. The first
/// line makes the file, or empties an older one of that name. Devices and pipes are written as they
/// are. Every failure throws Error with the file and the reason, and leaves the lines before it.
/// Not thread-safe.
class LineLog {
 public:
  /// Looks at the place at once, so that a bad path fails before the work is done. Throws Error for
  /// a name in .gz too: what is compressed cannot be followed.
  explicit LineLog(const std::string& path);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  /// `line` without its end.
  void add(std::string_view line);
  /// Waits for the disk itself. Last call.
  void close();

 private:
  void open();

  std::string path_;
  bool is_regular_ = true;  ///< neither device nor pipe
  std::int64_t size_ = 0;   ///< of whole lines, bytes
  int descriptor_ = -1;     ///< from the first line on; a device's or pipe's at once
};

}  // namespace unlatch
