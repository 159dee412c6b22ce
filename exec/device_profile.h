// What each layer of a model costs on a device: the times of a run in which every layer is a stage.
#pragma once

#include "exec/device_library.h"
#include "exec/layer_profile.h"

namespace unlatch::exec {

/// Trains on one lane of one device, every task timed by its clock (see ProfileSteps; a run of them
/// has at most 500 in each half). Of the options `burst` and
/// `workers` have no meaning here: the host has one thread.
///
/// A layer's time holds its launch where the device waits for the host, so there is no overhead of
/// a call besides. `input` is what the first F takes beyond an R of its layer, `loss` the same of
/// the last; the target is in it (in `input` where the model has one layer).
///
/// Throws Error for options without sense or data that does not fit the model, RunError when
/// cancelled (asked between runs) and for what goes wrong on the device.
LayerProfile profile_layers_on(const DeviceLibrary& library, const DeviceSettings& where,
                               const models::Model& model, const models::Dataset& data,
                               const ProfileOptions& options);

}  // namespace unlatch::exec
