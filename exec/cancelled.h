// Cancelled: a run that was ended from outside.
#pragma once

#include <exception>

namespace unlatch::exec {

/// Thrown by a backend when the run was cancelled.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "cancelled"; }
};

}  // namespace unlatch::exec
