// A text that tests make themselves: words in a seeded order, as windows of a model's length.
#pragma once

#include <array>
#include <string_view>

#include "models/dataset.h"
#include "models/random.h"

namespace unlatch::testing_support {

inline models::Dataset text_of_words(int words, std::uint64_t seed) {
  constexpr std::array<std::string_view, 8> known = {"in ",    "the ",  "beginning ", "was ",
                                                     "light ", "dark ", "and ",       "\xC3\xBC "};
  models::Dataset data;
  data.name = "small text";
  data.shape = {1, 1, 1, true};
  data.classes = 256;
  for (int n = 0; n < words; ++n) {
    const std::string_view word = known[models::random_bits(seed, n) % known.size()];
    data.pixels.insert(data.pixels.end(), word.begin(), word.end());
  }
  data.labels.assign(data.pixels.begin() + 1, data.pixels.end());
  return data;
}

inline models::DataSplit small_text(const models::SampleShape& window) {
  models::DataSplit data{.train = text_of_words(600, 1), .test = text_of_words(60, 2)};
  models::cut_windows(data, window);
  return data;
}

}  // namespace unlatch::testing_support
