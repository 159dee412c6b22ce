#include "traces/timeline.h"

#include <algorithm>

namespace unlatch {

nanoseconds makespan(const Timeline& timeline) {
  nanoseconds end{0};
  for (const Span& span : timeline.spans) end = std::max(end, span.end);
  return end;
}

}  // namespace unlatch
