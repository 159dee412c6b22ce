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
                   int micro_batches, std::uint64_t seed)
    : data_(data),
      input_(input),
      micro_batches_(micro_batches),
      size_(exec::micro_batch_size(batch_size, micro_batches)),
      order_(data.samples(), batch_size, seed) {
  models::require_fits(data, input);
}

std::vector<int> DataFeed::indices(MicroBatch i) const {
  return order_.indices(i.value / micro_batches_, i.value % micro_batches_ * size_, size_);
}

Tensor DataFeed::input(MicroBatch i) { return input_of(data_, indices(i), input_, pool_); }
Tensor DataFeed::target(MicroBatch i) { return target_of(data_, indices(i), pool_); }

Tensor input_of(const models::Dataset& data, std::span<const int> samples,
                const models::SampleShape& as, BufferPool& pool) {
  const auto elements = static_cast<std::size_t>(as.elements());
  Tensor tensor = pool.take(samples.size() * elements * sizeof(float));
  std::span<float> rest = tensor.as<float>();
  for (const int sample : samples) {
    data.copy_sample(sample, as, rest.first(elements));
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
