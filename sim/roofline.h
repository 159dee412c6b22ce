// Roofline: the time of a layer from what it does and what a device can do.
#pragma once

#include <string>

#include "sim/hardware.h"

namespace unlatch::sim {

struct Work {
  double flops = 0;
  double bytes = 0;  ///< read and written
};

/// The longer of computing and moving, at the share of the peaks that the device reaches, and a
/// launch (Williams, Waterman and Patterson, CACM 2009). `format` is one of the device's number
/// formats. Nothing to do takes no time. Throws Error naming the formats that there are.
nanoseconds roofline_time(const DeviceType& device, const std::string& format, const Work& work);

}  // namespace unlatch::sim
