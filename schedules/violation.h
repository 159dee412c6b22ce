// Violation: one broken rule of a schedule, as a value that the command line and tests read.
#pragma once

#include <string>
#include <vector>

namespace unlatch {

struct Violation {
  std::string rule;                ///< "missing", "duplicate", "order", "placement", "range",
                                   ///< "unfinished", "deadlock", "race", "barrier"; of files also
                                   ///< "token", "row", "shape", "format", "memory"
  std::vector<std::string> tasks;  ///< labels of the tasks concerned
  int row = -1;                    ///< rank whose program breaks the rule; -1: none in particular
  int column = -1;                 ///< place in that program, from 0
  std::string message;             ///< what, where, which rule, what to do
  friend bool operator==(const Violation&, const Violation&) = default;
};

}  // namespace unlatch
