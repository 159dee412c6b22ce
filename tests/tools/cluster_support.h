// A small cluster for tests of --cluster.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace unlatch::test {

/// Two devices of 1 TFLOP/s and no launch, memory far faster than that, joined by one cable.
inline nlohmann::json two_devices() {
  return {{"name", "pair"},
          {"device_types",
           {{"X",
             {{"tflops", {{"fp32", 1}}}, {"memory", "1GiB"}, {"memory_bandwidth", "900000GB/s"}}}}},
          {"node",
           {{"devices", {{"type", "X"}, {"count", 2}}},
            {"links",
             {{{"from", "device0"},
               {"to", "device1"},
               {"bandwidth", "1GB/s"},
               {"latency", "3us"},
               {"duplex", "half"}}}}}}};
}

/// 16 samples of 64 numbers through 64 -> 64 -> 10.
inline const std::string on_pair =
    "simulate --cluster pair.json --model mlp:hidden=64 --data digits --batch-size 16 ";

inline nlohmann::json link(const char* from, const char* to, const char* bandwidth) {
  return {{"from", from}, {"to", to}, {"bandwidth", bandwidth}, {"latency", "3us"}};
}

}  // namespace unlatch::test
