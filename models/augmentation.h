// Augmentation: random changes of training images, a function of (seed, epoch, sample) alone.
#pragma once

#include <cstdint>
#include <string_view>

namespace unlatch::models {

/// Where a sample's pixels are taken from; beyond its edge they are 0.
struct ImageChange {
  int down = 0;   ///< the first row is that row of the sample
  int right = 0;  ///< the first column, before the mirror
  bool mirrored = false;
  bool none() const { return down == 0 && right == 0 && !mirrored; }
};

/// As CIFAR is trained on in the papers: a rim of `crop` black pixels around each image, a window
/// of the image's size anywhere in it, and its mirror image half of the time (He et al., CVPR 2016,
/// section 4.2).
struct Augmentation {
  int crop = 0;
  bool flip = false;

  /// "crop=4,flip". Throws Error, beginning with `place`, for anything else.
  static Augmentation parse(std::string_view text, std::string_view place);
  bool any() const { return crop > 0 || flip; }
  ImageChange of(std::uint64_t seed, int epoch, int sample) const;
};

}  // namespace unlatch::models
