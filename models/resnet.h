// The residual networks of He et al. (CVPR 2016): for ImageNet, and for CIFAR of any depth.
#pragma once

#include <optional>
#include <string_view>

#include "models/layer.h"

namespace unlatch::models {

/// The number behind "resnet"; nothing for a name of another form. Throws Error with the nearest
/// depths when there is no network of this one.
std::optional<int> resnet_depth(std::string_view name);

/// 3x224x224 or 3x32x32.
SampleShape resnet_input(int depth);

}  // namespace unlatch::models
