// unlatch profile --machine: a hardware file of this machine, for --cluster.
#include <algorithm>
#include <string>

#include "exec/machine_speed.h"
#include "sim/hardware.h"
#include "sim/units.h"
#include "tools/machine.h"
#include "tools/profile_output.h"
#include "tools/text.h"

namespace unlatch::tools {
namespace {

std::string rate(double bytes_a_second) { return fmt::format("{:.3f}GB/s", bytes_a_second / 1e9); }
std::string time(std::chrono::nanoseconds t) { return fmt::format("{}ns", t.count()); }

/// A device is a core; messages between two of them pass through memory that all share.
Json hardware_json(const exec::MachineSpeed& speed) {
  const Json type{{"tflops", {{"fp32", speed.flops / 1e12}}},
                  {"memory", fmt::format("{}B", memory_bytes() / speed.cores)},
                  {"memory_bandwidth", rate(speed.memory_rate)},
                  {"launch", time(speed.launch)}};
  Json node{{"devices", {{"type", "core"}, {"count", speed.cores}}}};
  if (speed.cores > 1) {
    const auto half = std::max(std::chrono::nanoseconds(1), speed.hop / 2);
    node["switches"] = {"memory"};
    node["links"] = Json::array({{{"from", "device"},
                                  {"to", "memory"},
                                  {"bandwidth", rate(speed.copy_rate)},
                                  {"latency", time(half)}}});
  }
  return {{"name", "this machine"},
          {"source",
           fmt::format("Measured by 'unlatch profile --machine', a device for each of {} cores: "
                       "oneDNN's product of 512 x 512 matrices and a triad over 96 MiB on all of "
                       "them at once, a call of oneDNN with nothing to do, and between two of them "
                       "a copy of 1 MiB just written and a message there and back.",
                       speed.cores)},
          {"device_types", {{"core", type}}},
          {"node", node}};
}

std::string to_text(const exec::MachineSpeed& speed) {
  std::string text =
      fmt::format("{} core{}, each {} GFLOP/s in fp32, {} GB/s of memory, {} ns a call\n",
                  speed.cores, speed.cores == 1 ? "" : "s", format_number(speed.flops / 1e9),
                  format_number(speed.memory_rate / 1e9), speed.launch.count());
  if (speed.cores == 1) return text;
  return text + fmt::format("from core to core {} GB/s, {} ns\n",
                            format_number(speed.copy_rate / 1e9), speed.hop.count());
}

}  // namespace

int profile_machine(const Arguments& arguments) {
  require_no_others(arguments, "machine", {"save", "json"});
  ProfileOutput output(arguments);
  const exec::MachineSpeed speed = exec::measure_machine();
  const Json document = hardware_json(speed);
  sim::parse_cluster(document.dump(), "this machine");  // what is written can be read
  output.give(document, to_text(speed));
  return 0;
}

}  // namespace unlatch::tools
