// Memory of this machine, from sysconf, the control group (version 2) and the limit of the process.
#include "tools/machine.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace unlatch::tools {
namespace {

/// Writable memory that is mapped already: sanitizers map terabytes before the program starts.
std::int64_t mapped_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t size = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  in >> size >> resident >> shared >> text >> library >> data;
  return in ? data * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace

std::int64_t memory_bytes() {
  const std::int64_t machine = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::ifstream in("/sys/fs/cgroup/memory.max");
  std::int64_t group = 0;
  return in >> group && group > 0 ? std::min(machine, group) : machine;  // "max" is no number
}

void limit_memory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return;
  const auto most = static_cast<rlim_t>(mapped_bytes() + memory_bytes());
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur <= most) return;
  limit.rlim_cur = most;  // cannot fail: below the hard limit, or that is infinite
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace unlatch::tools
