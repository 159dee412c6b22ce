// Whether the CUDA libraries, the driver and the devices of this machine go with what was compiled.
#pragma once

#include <span>
#include <string>

namespace unlatch::exec::cuda {

/// "CUDA 13.0 (loaded 13.0, driver 13.1), cuBLAS ..". Throws Error with all of them when a loaded
/// library is older than the one compiled with or of another major version, and when the driver is
/// of an older major version than the CUDA runtime. Within one the two go together (CUDA's "minor
/// version compatibility"); what there is to say where there is no driver, devices() says.
std::string library_versions();

/// Throws Error with the device, its compute capability and the architectures that the library is
/// compiled for, where none fits. Leaves another device selected than before.
void require_code_for(std::span<const int> devices);

}  // namespace unlatch::exec::cuda
