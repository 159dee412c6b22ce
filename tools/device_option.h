// --device: where a run takes place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/device_library.h"
#include "models/model.h"
#include "tools/arguments.h"

namespace unlatch::tools {

struct AskedDevice {
  std::string name;  ///< "NVIDIA H100 PCIe", of each
  exec::DeviceSettings settings;
};

/// The options beside --device that say how a GPU is used.
inline const std::vector<const char*> device_options = {
    "share-device", "transport", "precision", "loss-scale", "cuda-graph", "memory-limit"};

/// --precision.
exec::Precision asked_precision(const Arguments& arguments);

/// --device as numbers; empty for the CPU. Looks for no device.
std::vector<int> asked_device_numbers(const Arguments& arguments);

/// Throws Error for --device cuda with a tied head, which is not trained there. Looks for no
/// device.
void require_trains_there(const Arguments& arguments, const models::Model& model);

/// Empty for the CPU. Loads the CUDA library otherwise and looks for the device. Throws Error when
/// there is none, or when more than one rank would be on it without --share-device yes.
std::optional<AskedDevice> asked_device(const Arguments& arguments, int ranks);

}  // namespace unlatch::tools
