// Synthetic images: a fixed random pattern a class, each sample the pattern under own noise.
#include <algorithm>

#include "models/data_sources.h"
#include "models/random.h"
#include "models/specification.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 31;

SampleShape parse_shape(std::string_view specification, std::string_view text) {
  const std::vector<std::string_view> parts = split(text, 'x');
  int sides[3] = {};
  bool good = parts.size() == 3;
  for (std::size_t i = 0; good && i < 3; ++i) {
    good = parse_whole(parts[i], sides[i]) && sides[i] >= 1 && sides[i] <= 4096;
  }
  require(good,
          "data '{}': the shape is channels x height x width, each from 1 to 4096, as in "
          "synthetic:3x32x32, not '{}'",
          specification, text);
  return {sides[0], sides[1], sides[2]};
}

/// Labels in turn; a pixel is grey, its class's pattern (+-40) and noise (+-80).
Dataset make_part(const Dataset& form, int samples, std::uint64_t patterns, std::uint64_t noise) {
  Dataset data = form;
  const std::int64_t size = data.shape.elements();
  data.pixels.reserve(samples * size);
  for (int n = 0; n < samples; ++n) {
    const int label = n % data.classes;
    data.labels.push_back(label);
    for (std::int64_t i = 0; i < size; ++i) {
      const bool bright = (random_bits(patterns, label * size + i) & 1) != 0;
      const auto deviation = static_cast<int>(random_bits(noise, n * size + i) % 161) - 80;
      data.pixels.push_back(static_cast<std::uint8_t>(128 + (bright ? 40 : -40) + deviation));
    }
  }
  return data;
}

}  // namespace

DataSplit make_synthetic(std::string_view specification) {
  const Specification given("data", specification);
  given.allow_keys({"classes", "samples", "seed"});
  Dataset form;
  form.name = "synthetic";
  form.shape = parse_shape(specification, given.argument());
  form.classes = given.whole("classes", 10, 2, 1000);
  const int samples = given.whole("samples", 1000, 1, 100'000'000);
  require(samples * form.shape.elements() <= most_bytes,
          "data '{}': {} samples of {} values are more than 2 GiB; ask for fewer samples",
          specification, samples, form.shape.elements());
  const auto seed = static_cast<std::uint64_t>(given.whole("seed", 0, 0, 2147483647));
  const int tests = std::max(1, samples / 5);
  return {.train = make_part(form, samples, derived_key(seed, 0), derived_key(seed, 1)),
          .test = make_part(form, tests, derived_key(seed, 0), derived_key(seed, 2))};
}

}  // namespace unlatch::models
