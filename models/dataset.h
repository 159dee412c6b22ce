// Dataset: labelled images or text in memory, and the order in which batches draw them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/augmentation.h"
#include "models/batch_sizes.h"
#include "models/layer.h"

namespace unlatch::models {

/// Pixels as stored (0..255 or 0..16), turned into floats on the way out: (p/scale -
/// mean)/deviation. Of text, bytes as they are, in windows side by side; the label of each is the
/// next byte.
struct Dataset {
  std::string name;
  SampleShape shape;
  int classes = 10;
  std::vector<std::uint8_t> pixels;  ///< [samples, channels, height, width]
  std::vector<float> floats;         ///< the same, of files of floats; no pixels then
  std::vector<std::int32_t> labels;  ///< [samples], of text [samples, tokens]
  double scale = 255;
  std::vector<float> mean;       ///< a channel
  std::vector<float> deviation;  ///< a channel

  int samples() const { return static_cast<int>(labels.size()) / shape.rows(); }
  /// Writes one normalised sample, fitted into `as`: pixels of value 0 around it, one channel
  /// repeated; changed before that. Throws Error if it does not fit (see require_fits).
  /// Thread-safe.
  void copy_sample(int index, const SampleShape& as, std::span<float> out,
                   const ImageChange& change = {}) const;
};

struct DataSplit {
  Dataset train;
  Dataset test;
};

/// `digits`, `fashion-mnist[:DIR]`, `mnist:DIR`, `cifar10:DIR`, `cifar100:DIR`,
/// `numpy:DIR`, `synthetic:CxHxW[,classes=10][,samples=1000][,seed=0]`, `text:FILE`, `text:DIR`. Of
/// text, the last tenth is the test part, and windows are one token long until cut_windows(). Mean
/// and deviation are those of the training part. Files may be plain or gzip. Throws Error naming
/// the file, what was expected and what was found; nothing is ever replaced by other data.
DataSplit load_data(std::string_view specification);

/// Makes windows of text as long as the model's input has tokens; the rest of each part is left
/// out. Images stay as they are. Throws Error for a part that is too short.
void cut_windows(DataSplit& data, const SampleShape& input);

/// Throws Error unless samples of that shape can feed a model with this input (equal, or smaller
/// and padded, or one channel repeated).
void require_fits(const Dataset& data, const SampleShape& input);

/// Which samples a batch holds: a fresh seeded shuffle an epoch (what an epoch's batches leave out
/// is other samples each epoch). A function of (seed, batch) alone.
class BatchOrder {
 public:
  BatchOrder(BatchSizes sizes, std::uint64_t seed) : sizes_(std::move(sizes)), seed_(seed) {}
  /// Indices of samples [first, first + count) of a batch. Thread-safe.
  std::vector<int> indices(int batch, int first, int count) const;

 private:
  BatchSizes sizes_;
  std::uint64_t seed_;
};

}  // namespace unlatch::models
