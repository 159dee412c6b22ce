// AtomicFile: a stream into a file that appears whole or not at all.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>

namespace unlatch {

/// An output stream, compressed when the name ends in .gz, whose file takes its name only at
/// commit(): until then a reader sees the older file, or none. Without commit() (an exception, a
/// killed process) nothing new is left behind. Every failure throws Error with the file and the
/// reason, from whatever call it happens in. Devices and pipes (/dev/stdout, a FIFO) are written
/// directly. Not thread-safe.
class AtomicFile : public std::ostream {
 public:
  /// Opens the place for writing at once, so that a bad path fails before the work is done.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile() override;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Writes what is buffered, to the disk itself, and gives the file its name. Last call.
  void commit();

  /// Removes what is unfinished, and lets no file get its name any more: for whoever ends the
  /// process.
  static void abandon_all();

 private:
  class Sink;
  std::unique_ptr<Sink> sink_;
};

/// A file of this text, whole or not at all. Throws Error like AtomicFile.
void write_file(const std::string& path, std::string_view text);

}  // namespace unlatch
