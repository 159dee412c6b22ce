// Samples out of a data set, and the seeded order of batches.
#include "models/dataset.h"

#include <algorithm>
#include <bit>

#include "models/random.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

bool fits(const SampleShape& sample, const SampleShape& input) {
  if (sample.is_sequence || input.is_sequence) return sample == input;
  return (sample.channels == input.channels || sample.channels == 1) &&
         sample.height <= input.height && sample.width <= input.width;
}

/// Place `index` of a random permutation of 0..count-1, without storing it: a Feistel network over
/// the next even number of bits, walked until it falls below count (Black and Rogaway, CT-RSA
/// 2002).
int permuted(int index, int count, std::uint64_t key) {
  constexpr int rounds = 6;
  const unsigned bits = std::bit_width(static_cast<unsigned>(count - 1));
  const unsigned half = std::max(1U, (bits + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  auto value = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t left = value >> half;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t mixed = left ^ (random_bits(key + round, right) & mask);
      left = right;
      right = mixed;
    }
    value = left << half | right;
  } while (value >= static_cast<std::uint64_t>(count));
  return static_cast<int>(value);
}

/// One channel, changed, into rows that are `apart` floats from each other.
template <class T>
void copy_channel(const T* channel, const SampleShape& shape, const ImageChange& change,
                  float factor, float zero, float* to, int apart) {
  const int step = change.mirrored ? -1 : 1;
  const int first = change.right + (change.mirrored ? shape.width - 1 : 0);
  for (int y = 0; y < shape.height; ++y, to += apart) {
    const int row = y + change.down;
    if (row < 0 || row >= shape.height) {
      std::fill_n(to, shape.width, zero);
      continue;
    }
    const T* from = channel + std::ptrdiff_t{row} * shape.width;
    if (change.none()) {
      for (int x = 0; x < shape.width; ++x) to[x] = static_cast<float>(from[x]) * factor + zero;
      continue;
    }
    for (int x = 0; x < shape.width; ++x) {
      const int column = first + step * x;
      const bool inside = column >= 0 && column < shape.width;
      to[x] = inside ? static_cast<float>(from[column]) * factor + zero : zero;
    }
  }
}

}  // namespace

void require_fits(const Dataset& data, const SampleShape& input) {
  const SampleShape& s = data.shape;
  require(s.is_sequence == input.is_sequence,
          "data {}: {}; text:FILE is for the model transformer, images for the others", data.name,
          s.is_sequence ? "text does not go into a model of images"
                        : "images do not go into a model of text");
  require(fits(s, input),
          "data {}: its samples are {}x{}x{} (channels x height x width) and do not fit the "
          "model's input {}x{}x{}; smaller images are padded and one channel is repeated, nothing "
          "else",
          data.name, s.channels, s.height, s.width, input.channels, input.height, input.width);
}

void Dataset::copy_sample(int index, const SampleShape& as, std::span<float> out,
                          const ImageChange& change) const {
  require(index >= 0 && index < samples(), "data {}: there is no sample {}, it has {}", name, index,
          samples());
  require_fits(*this, as);
  require(out.size() == static_cast<std::size_t>(as.elements()),
          "data {}: a sample of {} values does not go into room for {}", name, as.elements(),
          out.size());
  if (shape.is_sequence) {
    std::copy_n(pixels.begin() + index * shape.elements(), shape.elements(), out.begin());
    return;
  }
  const int top = (as.height - shape.height) / 2;
  const int left = (as.width - shape.width) / 2;
  for (int c = 0; c < as.channels; ++c) {
    const int from = shape.channels == 1 ? 0 : c;
    const auto factor = static_cast<float>(1 / (scale * deviation[from]));
    const auto zero = static_cast<float>(-static_cast<double>(mean[from]) / deviation[from]);
    const std::span<float> plane =
        out.subspan(std::size_t(c) * as.height * as.width, std::size_t(as.height) * as.width);
    if (shape.height != as.height || shape.width != as.width) {
      std::fill(plane.begin(), plane.end(), zero);
    }
    const std::int64_t first =
        index * shape.elements() + std::int64_t{from} * shape.height * shape.width;
    float* to = &plane[std::size_t(top) * as.width + left];
    if (floats.empty()) {
      copy_channel(&pixels[first], shape, change, factor, zero, to, as.width);
    } else {
      copy_channel(&floats[first], shape, change, factor, zero, to, as.width);
    }
  }
}

std::vector<int> BatchOrder::indices(int batch, int first, int count) const {
  require(batch >= 0, "there is no batch {}", batch);
  const BatchSizes::Batch drawn_from = sizes_.batch(batch);
  require(first >= 0 && count >= 0 && first + count <= drawn_from.size,
          "batch {}: samples {} to {} are not in a batch of {}", batch, first, first + count - 1,
          drawn_from.size);
  const std::uint64_t key = derived_key(derived_key(seed_, 0x6F72646572), drawn_from.epoch);
  std::vector<int> drawn(count);
  for (int i = 0; i < count; ++i)
    drawn[i] = permuted(drawn_from.first + first + i, sizes_.samples(), key);
  return drawn;
}

}  // namespace unlatch::models
