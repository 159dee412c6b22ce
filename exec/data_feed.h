// DataFeed: a data set as the inputs and labels of micro-batches.
#pragma once

#include "exec/stage_module.h"
#include "models/dataset.h"

namespace unlatch::exec {

/// Micro-batch i is part i % M of batch i / M. Inputs are normalised floats
/// [samples, channels, height, width], targets int32 [samples]; of text the bytes as floats
/// [samples, tokens] and the next ones as int32 of that shape. `data` must outlive the feed.
class DataFeed : public Feed {
 public:
  /// `augmentation` changes each sample anew each epoch. Throws Error unless the data fits the
  /// model.
  DataFeed(const models::Dataset& data, const models::SampleShape& input,
           const models::BatchSizes& sizes, std::uint64_t seed,
           const models::Augmentation& augmentation = {});
  /// Batches and micro-batches of one size. Throws Error unless the one is a multiple of the other.
  DataFeed(const models::Dataset& data, const models::SampleShape& input, int batch_size,
           int micro_batches, std::uint64_t seed, const models::Augmentation& augmentation = {});

  Tensor input(MicroBatch i) override;
  Tensor target(MicroBatch i) override;
  Share share(MicroBatch i) const override;

 private:
  models::BatchSizes::Batch batch_of(MicroBatch i) const;
  std::vector<int> indices(MicroBatch i) const;
  std::vector<models::ImageChange> changes(MicroBatch i, std::span<const int> samples) const;

  const models::Dataset& data_;
  models::SampleShape input_;
  models::BatchSizes sizes_;
  models::BatchOrder order_;
  std::uint64_t seed_;
  models::Augmentation augmentation_;
  BufferPool pool_;
};

/// Samples as one input tensor, each with its change where there are any, and their labels as a
/// target tensor.
Tensor input_of(const models::Dataset& data, std::span<const int> samples,
                const models::SampleShape& as, BufferPool& pool,
                std::span<const models::ImageChange> changes = {});
Tensor target_of(const models::Dataset& data, std::span<const int> samples, BufferPool& pool);

}  // namespace unlatch::exec
