#include "traces/line_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "schedules/error.h"
#include "traces/write_all.h"

namespace unlatch {

LineLog::LineLog(const std::string& path) : path_(path) {
  require(!path_.empty(), "cannot write a file without a name");
  require(!path_.ends_with(".gz"),
          "cannot write '{}': lines are added to this file as the run goes on, which a compressed "
          "one does not allow; leave out .gz",
          path_);
  struct stat facts {};
  const bool exists = ::stat(path_.c_str(), &facts) == 0;
  is_regular_ = !exists || S_ISREG(facts.st_mode);
  if (!is_regular_) {
    open();
    return;
  }
  const std::string place = exists ? path_ : directory_of(path_);
  if (::access(place.c_str(), W_OK) != 0) fail_to_write(path_, errno);
}

LineLog::~LineLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void LineLog::open() {
  const int emptied = is_regular_ ? O_CREAT | O_TRUNC : 0;
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | emptied, 0666);
  if (descriptor_ < 0) fail_to_write(path_, errno);
}

void LineLog::add(std::string_view line) {
  if (descriptor_ < 0) open();
  std::string whole(line);
  whole += '\n';
  try {
    write_all(descriptor_, whole, path_);
  } catch (const Error&) {
    // A part of a line is worth less than none; that it stays is no worse than the failure itself.
    if (is_regular_ && ::ftruncate(descriptor_, size_) == 0) ::lseek(descriptor_, size_, SEEK_SET);
    throw;
  }
  size_ += static_cast<std::int64_t>(whole.size());
}

void LineLog::close() {
  if (descriptor_ < 0) return;
  if (is_regular_ && ::fdatasync(descriptor_) != 0 && errno != EINVAL) fail_to_write(path_, errno);
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail_to_write(path_, errno);
}

}  // namespace unlatch
