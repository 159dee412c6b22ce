// How many threads one call of oneDNN may use: one, always (teams of two collapse when anything
// else wants a core).
#pragma once

namespace unlatch::exec {

/// Limits the calling thread to one thread of mathematics. OpenMP holds this number per thread and
/// a new thread starts at the number of cores, so every worker calls this first.
void use_one_maths_thread();

/// The same for a scope; the caller's own setting comes back afterwards.
class OneMathsThread {
 public:
  OneMathsThread();
  ~OneMathsThread();
  OneMathsThread(const OneMathsThread&) = delete;
  OneMathsThread& operator=(const OneMathsThread&) = delete;

 private:
  int before_;
};

}  // namespace unlatch::exec
