#include "tools/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "schedules/error.h"

namespace unlatch::tools {

FolderLock::FolderLock(const std::string& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) return;
  // A process that was killed a moment ago may still be on its way out, with its lock.
  constexpr std::chrono::milliseconds between{50};
  constexpr int most_tries = 60;
  for (int tries = 0; tries < most_tries; ++tries) {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    std::this_thread::sleep_for(between);
  }
  ::close(descriptor_);
  fail("--checkpoint {}: another run is saving there; give each a folder of its own", folder);
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace unlatch::tools
