// The keys of schedules whose order is searched for given times: times=F/I/W and comm.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "schedules/error.h"
#include "schedules/registry.h"

namespace unlatch {

/// Fills in 1/1/1; throws Error, naming the method, for times that no search can use.
inline void resolve_assumed_times(std::string_view method, Options& options) {
  if (options.find("times") == nullptr) options.set("times", std::vector<int>{1, 1, 1});
  const std::vector<int>& times = options.list("times");
  require(times.size() == 3 && *std::min_element(times.begin(), times.end()) > 0,
          "{}: times are three whole numbers above 0, those of F, I and W as in 3/2/1, not {}",
          method, fmt::join(times, "/"));
  const double comm = options.number("comm");
  constexpr double most = 1e6;  // as many times of a task: sums of more would lose the tasks
  require(comm >= 0 && comm <= most * times[0],
          "{}: comm is the time of a transfer, 0 to {:g} times that of F, not {}", method, most,
          comm);
}

}  // namespace unlatch
