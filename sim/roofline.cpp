#include "sim/roofline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedules/error.h"

namespace unlatch::sim {
namespace {

constexpr double ns_a_second = 1e9;

nanoseconds to_ns(double seconds) {
  constexpr double most_ns = 4e18;
  const double ns = seconds * ns_a_second;
  require(ns < most_ns, "a task would last longer than 126 years; check the hardware file");
  return nanoseconds(std::llround(ns));
}

}  // namespace

nanoseconds roofline_time(const DeviceType& device, const std::string& format, const Work& work) {
  const auto peak = device.flops.find(format);
  if (peak == device.flops.end()) {
    std::vector<std::string> formats;
    for (const auto& [name, flops] : device.flops) formats.push_back(name);
    fail("device {} has no peak for {}; it has {}", device.name, format, fmt::join(formats, ", "));
  }
  if (work.flops <= 0 && work.bytes <= 0) return nanoseconds(0);
  const double computing = work.flops / (peak->second * device.achieved);
  const double moving = work.bytes / (device.memory_rate * device.achieved);
  return to_ns(std::max(computing, moving)) + device.launch;
}

}  // namespace unlatch::sim
