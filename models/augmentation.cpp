#include "models/augmentation.h"

#include "models/random.h"
#include "models/specification.h"
#include "schedules/error.h"
#include "schedules/suggest.h"

namespace unlatch::models {

Augmentation Augmentation::parse(std::string_view text, std::string_view place) {
  Augmentation augmentation;
  for (const std::string_view item : split(text, ',')) {
    const std::string_view key = item.substr(0, item.find('='));
    if (item == "flip") {
      require(!augmentation.flip, "{} '{}': flip is given twice", place, text);
      augmentation.flip = true;
    } else if (key == "crop") {
      constexpr int most = 64;
      require(augmentation.crop == 0, "{} '{}': crop is given twice", place, text);
      const bool whole =
          item.size() > key.size() && parse_whole(item.substr(key.size() + 1), augmentation.crop);
      require(whole && augmentation.crop >= 1 && augmentation.crop <= most,
              "{} '{}': crop must be a whole number of pixels from 1 to {}, as in crop=4", place,
              text, most);
    } else {
      fail("{} '{}': '{}' is neither crop=PIXELS nor flip.{}", place, text, item,
           suggest(key, {"crop", "flip"}));
    }
  }
  return augmentation;
}

ImageChange Augmentation::of(std::uint64_t seed, int epoch, int sample) const {
  constexpr std::uint64_t stream = 0x6175676D656E74;
  const std::uint64_t key =
      derived_key(derived_key(derived_key(seed, stream), static_cast<std::uint64_t>(epoch)),
                  static_cast<std::uint64_t>(sample));
  const auto shift = [&](std::uint64_t counter) {
    const auto places = static_cast<std::uint64_t>(2 * crop + 1);
    return static_cast<int>(random_bits(key, counter) % places) - crop;
  };
  return {shift(0), shift(1), flip && (random_bits(key, 2) & 1) != 0};
}

}  // namespace unlatch::models
