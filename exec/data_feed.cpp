#include "exec/data_feed.h"

#include <algorithm>

namespace unlatch::exec {

DataFeed::DataFeed(const models::Dataset& data, const models::SampleShape& input,
                   const models::BatchSizes& sizes, std::uint64_t seed,
                   const models::Augmentation& augmentation)
    : data_(data),
      input_(input),
      sizes_(sizes),
      order_(sizes, seed),
      seed_(seed),
      augmentation_(augmentation) {
  models::require_fits(data, input);
}

DataFeed::DataFeed(const models::Dataset& data, const models::SampleShape& input, int batch_size,
                   int micro_batches, std::uint64_t seed, const models::Augmentation& augmentation)
    : DataFeed(data, input, models::BatchSizes(data.samples(), {batch_size, micro_batches}), seed,
               augmentation) {}

models::BatchSizes::Batch DataFeed::batch_of(MicroBatch i) const {
  return sizes_.batch(i.value / sizes_.micro_batches());
}

Feed::Share DataFeed::share(MicroBatch i) const {
  const models::BatchSizes::Batch batch = batch_of(i);
  const int parts = sizes_.micro_batches();
  const models::BatchSizes::Part part = sizes_.part(batch, i.value % parts);
  return {.first_sample = part.first,
          .weight = static_cast<double>(part.size) * parts / batch.size};
}

std::vector<int> DataFeed::indices(MicroBatch i) const {
  const int parts = sizes_.micro_batches();
  const models::BatchSizes::Part part = sizes_.part(batch_of(i), i.value % parts);
  return order_.indices(i.value / parts, part.first, part.size);
}

std::vector<models::ImageChange> DataFeed::changes(MicroBatch i,
                                                   std::span<const int> samples) const {
  std::vector<models::ImageChange> changes;
  if (!augmentation_.any()) return changes;
  const int epoch = batch_of(i).epoch;
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
