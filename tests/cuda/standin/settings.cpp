#include "tests/cuda/standin/settings.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

namespace unlatch::standin {
namespace {

Settings read() {
  Settings s;
  const std::map<std::string, void (*)(Settings&, double)> keys = {
      {"devices", [](Settings& to, double x) { to.devices = static_cast<int>(x); }},
      {"memory", [](Settings& to, double x) { to.memory = static_cast<std::size_t>(x); }},
      {"seed", [](Settings& to, double x) { to.seed = static_cast<unsigned>(x); }},
      {"work_us", [](Settings& to, double x) { to.work_us = x; }},
      {"fail_malloc", [](Settings& to, double x) { to.fail_malloc = static_cast<int>(x); }},
      {"fail_kernel", [](Settings& to, double x) { to.fail_kernel = static_cast<int>(x); }},
      {"stuck_record", [](Settings& to, double x) { to.stuck_record = static_cast<int>(x); }},
      {"fail_nccl", [](Settings& to, double x) { to.fail_nccl = static_cast<int>(x); }},
      {"peers", [](Settings& to, double x) { to.peers = x != 0; }},
      {"damage_peers", [](Settings& to, double x) { to.damage_peers = x != 0; }},
      {"runtime", [](Settings& to, double x) { to.runtime = static_cast<int>(x); }},
      {"driver", [](Settings& to, double x) { to.driver = static_cast<int>(x); }},
      {"old_device", [](Settings& to, double x) { to.old_device = static_cast<int>(x); }},
      {"cublas", [](Settings& to, double x) { to.cublas = static_cast<int>(x); }},
      {"nccl", [](Settings& to, double x) { to.nccl = static_cast<int>(x); }},
      {"cudnn", [](Settings& to, double x) { to.cudnn = static_cast<std::size_t>(x); }},
  };
  const char* text = std::getenv("UNLATCH_STANDIN");
  std::istringstream parts(text == nullptr ? "" : text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    const auto key = keys.find(part.substr(0, equals));
    if (key == keys.end() || equals == std::string::npos) {
      std::fprintf(stderr, "UNLATCH_STANDIN: '%s' is no key and value\n", part.c_str());
      std::_Exit(86);
    }
    key->second(s, std::atof(part.c_str() + equals + 1));
  }
  return s;
}

}  // namespace

const Settings& settings() {
  static const Settings all = read();
  return all;
}

}  // namespace unlatch::standin
