#include "exec/data_feed.h"

#include <algorithm>

#include "schedules/error.h"

namespace unlatch::exec {
namespace {

int micro_batch_size(int batch_size, int micro_batches) {
  require(batch_size >= 1 && micro_batches >= 1 && batch_size % micro_batches == 0,
          "batch size {}: does not split into {} micro-batches of equal size; choose a multiple",
          batch_size, micro_batches);
  return batch_size / micro_batches;
}

}  // namespace

DataFeed::DataFeed(const models::Dataset& data, const models::SampleShape& input, int batch_size,
                   int micro_batches, std::uint64_t seed, const models::Augmentation& augmentation)
    : data_(data),
      input_(input),
      micro_batches_(micro_batches),
      size_(exec::micro_batch_size(batch_size, micro_batches)),
      order_(data.samples(), batch_size, seed),
      seed_(seed),
      augmentation_(augmentation) {
  models::require_fits(data, input);
}

std::vector<int> DataFeed::indices(MicroBatch i) const {
  return order_.indices(i.value / micro_batches_, i.value % micro_batches_ * size_, size_);
}

std::vector<models::ImageChange> DataFeed::changes(MicroBatch i,
                                                   std::span<const int> samples) const {
  std::vector<models::ImageChange> changes;
  if (!augmentation_.any()) return changes;
  const int epoch = i.value / micro_batches_ / batches_per_epoch();
  for (const int sample : samples) changes.push_back(augmentation_.of(seed_, epoch, sample));
  return changes;
}

Tensor DataFeed::input(MicroBatch i) {
  const std::vector<int> samples = indices(i);
  return input_of(data_, samples, input_, pool_, changes(i, samples));
}
Tensor DataFeed::target(MicroBatch i) { return target_of(data_, indices(i), pool_); }

Tensor input_of(const models::Dataset& data, std::span<const int> samples,
                const models::SampleShape& as, BufferPool& pool,
                std::span<const models::ImageChange> changes) {
  const auto elements = static_cast<std::size_t>(as.elements());
  Tensor tensor = pool.take(samples.size() * elements * sizeof(float));
  std::span<float> rest = tensor.as<float>();
  for (std::size_t n = 0; n < samples.size(); ++n) {
    data.copy_sample(samples[n], as, rest.first(elements),
                     changes.empty() ? models::ImageChange{} : changes[n]);
    rest = rest.subspan(elements);
  }
  return tensor;
}

Tensor target_of(const models::Dataset& data, std::span<const int> samples, BufferPool& pool) {
  const std::ptrdiff_t rows = data.shape.rows();
  Tensor tensor = pool.take(samples.size() * static_cast<std::size_t>(rows) * sizeof(std::int32_t));
  std::int32_t* label = tensor.data<std::int32_t>();
  for (const int sample : samples) {
    label = std::copy_n(data.labels.begin() + sample * rows, rows, label);
  }
  return tensor;
}

}  // namespace unlatch::exec
