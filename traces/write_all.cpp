#include "traces/write_all.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "schedules/error.h"

namespace unlatch {

void fail_to_write(const std::string& path, int code) {
  const std::string reason = std::generic_category().message(code);
  if (code == ENOSPC || code == EDQUOT) {
    fail("cannot write '{}': {}; free some space or choose another place", path, reason);
  }
  fail("cannot write '{}': {}", path, reason);
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return "./";
  return path.substr(0, slash + 1);
}

void write_all(int descriptor, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t written = ::write(descriptor, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(path, errno);
    data.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace unlatch
