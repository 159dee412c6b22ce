// BatchTime: where the time of a batch goes, as its busiest rank spends it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "traces/metrics.h"

namespace unlatch::sim {

/// Shares of one batch's period in the steady state, in ns, of the rank that is busy most (ties to
/// the lowest). They sum to the period, so that what makes one run slower than another is the part
/// that grew.
struct BatchTime {
  double compute = 0;    ///< F, B, I and W
  double recompute = 0;  ///< R that nothing hides
  double update = 0;     ///< U
  double transfer = 0;   ///< waiting for a message on its way
  double joining = 0;    ///< waiting for updates, all-reduces and barriers
  double bubble = 0;     ///< waiting for what other ranks have not computed yet

  struct Part {
    std::string_view name;
    double ns = 0;
  };
  std::array<Part, 6> parts() const;
};

/// `timeline` is of a run of whole batches, whose idle time gives the causes of the waiting.
BatchTime batch_time(const TaskGraph& graph, const Timeline& timeline, const Metrics& metrics,
                     double period_ns);

/// What `slower` spends more of than `faster`, the most first; parts below a thousandth of the
/// slower period are left out.
std::vector<BatchTime::Part> growth(const BatchTime& faster, const BatchTime& slower);

}  // namespace unlatch::sim
