// Profile file: measured costs of a model's layers as JSON, written and read back.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exec/handover.h"
#include "exec/layer_profile.h"
#include "exec/precision.h"
#include "tools/json_output.h"

namespace unlatch::tools {

/// What `unlatch profile` measured: one profile for each batch size and number of workers.
struct ProfileFile {
  std::string model;
  std::string data;
  std::string device = "cpu";  ///< or the name of a GPU; files of old have none
  exec::Precision precision = exec::Precision::fp32;
  std::int64_t sample_bytes = 0;  ///< one input sample as floats
  /// By batch size, then layer; empty on a GPU and in files of old: cuts cost nothing.
  std::map<int, std::vector<exec::HandoverCost>> handovers = {};
  std::vector<exec::LayerProfile> profiles;

  bool of_cpu() const { return device == "cpu"; }
};

Json to_json(const ProfileFile& file);
/// Throws Error that names the file and what is wrong with it.
ProfileFile read_profile(const std::string& path);

}  // namespace unlatch::tools
