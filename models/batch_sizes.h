// BatchSizes: which samples of an epoch's order make up each batch and each of its micro-batches.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace unlatch::models {

/// Batches that begin small and grow, as GPT-3's (Brown et al. 2020, section 2.3).
struct BatchRamp {
  int start = 1;  ///< samples of the first batches
  int step = 1;   ///< samples more ..
  int every = 1;  ///< .. after so many batches, up to the batch size

  /// "start=16,step=16,every=100". Throws Error.
  static BatchRamp parse(std::string_view text);
};

/// What is asked of the batches of a data set.
struct Batching {
  int batch_size = 1;
  int micro_batches = 1;
  /// Micro-batches may differ by a sample, and the last batch of an epoch holds what is left of it,
  /// if that is a sample for each of its micro-batches. Otherwise all of a batch have the same
  /// size, and what is left is left out.
  bool uneven = false;
  std::optional<BatchRamp> ramp = {};
};

class BatchSizes {
 public:
  /// Consecutive places in the order of one epoch.
  struct Batch {
    int epoch = 0;
    int first = 0;
    int size = 0;
  };
  /// Places in a batch.
  struct Part {
    int first = 0;
    int size = 0;
  };

  /// Throws Error where the samples do not make up a batch, or a batch not its micro-batches.
  BatchSizes(int samples, const Batching& asked);

  /// Batches are numbered over the whole run.
  Batch batch(int number) const;
  Part part(const Batch& batch, int number) const;
  /// Of an epoch behind the ramp.
  int batches_per_epoch() const { return batches_from(0, asked_.batch_size); }
  /// In the first so many epochs.
  int batches_of_epochs(int epochs) const;
  /// The same where part of the last one counts by the share of its batches.
  double batches_of_epochs(double epochs) const;
  /// All different sizes of micro-batches among the first so many batches, the largest first.
  std::vector<int> part_sizes(int batches) const;
  int micro_batches() const { return asked_.micro_batches; }
  int samples() const { return samples_; }

 private:
  /// Batches of one size, from a place in an epoch on and through all later ones.
  struct Level {
    int number = 0;  ///< of its first batch
    int size = 0;
    int epoch = 0;
    int first = 0;  ///< sample
  };
  /// Of that size, from a sample to the end of its epoch.
  int batches_from(int first, int size) const;
  const Level& level_of(int number) const;
  Batch batch_of(const Level& level, int number) const;
  void climb(const BatchRamp& ramp);

  int samples_;
  Batching asked_;
  std::vector<Level> levels_;  ///< by number; the last goes on for ever
};

}  // namespace unlatch::models
