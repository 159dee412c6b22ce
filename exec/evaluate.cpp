#include "exec/evaluate.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <thread>

#include "exec/data_feed.h"
#include "exec/dnn_chain.h"
#include "exec/dnn_loss.h"
#include "models/layer_sizes.h"
#include "schedules/error.h"

namespace unlatch::exec {
namespace {

/// Samples at once: as asked, or fewer where a tensor of them would be very large.
int batch_size_for(const models::Model& model, int asked) {
  constexpr std::int64_t most_numbers = std::int64_t{1} << 28;
  const std::int64_t a_sample = std::max<std::int64_t>(models::largest_tensor(model).numbers, 1);
  return static_cast<int>(std::clamp<std::int64_t>(most_numbers / a_sample, 1, asked));
}

/// A model in inference mode for one batch size.
class InferenceModel {
 public:
  InferenceModel(const models::Model& model, int samples)
      : chain_(model.layers, {dnnl::engine(dnnl::engine::kind::cpu, 0), Mode::inference, samples,
                              model.input, plain_layout(samples, model.input)}),
        to_rows_(chain_.output().engine, chain_.output().layout,
                 plain_layout(samples, chain_.output().shape)) {}

  Tensor logits(const Flat& flat, Tensor input, BufferPool& pool, Workspace& workspace) const {
    Call call(chain_.input().engine, pool, workspace);
    Flow output = chain_.forward(flat, {std::move(input), true}, nullptr, call);
    return to_rows_.moved(std::move(output.tensor), call);
  }
  std::int64_t weights() const { return chain_.weights(); }
  std::int64_t statistics() const { return chain_.statistics(); }

 private:
  Chain chain_;
  Reorder to_rows_;
};

/// Batches of a data set shared out among threads; each result has its own place, so that the sum
/// is always taken in the same order.
class Evaluator {
 public:
  Evaluator(const models::Model& model, const Flat& flat, const models::Dataset& data, int size)
      : input_(model.input), flat_(flat), data_(data), size_(size), whole_(model, size) {
    const int rest = data.samples() % size;
    if (rest != 0) last_ = std::make_unique<InferenceModel>(model, rest);
    results_.resize(static_cast<std::size_t>((data.samples() + size - 1) / size));
  }

  const InferenceModel& model() const { return whole_; }

  void work() noexcept {
    use_one_maths_thread();
    try {
      BufferPool pool;
      Workspace workspace;
      for (int b = next_++; b < static_cast<int>(results_.size()); b = next_++) {
        run(b, pool, workspace);
      }
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
  }

  Evaluation result() const {
    if (failure_) std::rethrow_exception(failure_);
    Evaluation sum;
    for (const Loss& batch : results_) {
      sum.loss += batch.loss * batch.samples;
      sum.correct += batch.correct;
      sum.samples += batch.samples;
    }
    sum.loss /= sum.samples;
    sum.accuracy = static_cast<double>(sum.correct) / sum.samples;
    return sum;
  }

 private:
  void run(int batch, BufferPool& pool, Workspace& workspace) {
    const int first = batch * size_;
    std::vector<int> samples(static_cast<std::size_t>(std::min(size_, data_.samples() - first)));
    std::iota(samples.begin(), samples.end(), first);
    const bool whole = static_cast<int>(samples.size()) == size_;
    const Tensor logits =
        (whole ? whole_ : *last_)
            .logits(flat_, input_of(data_, samples, input_, pool), pool, workspace);
    const Tensor labels = target_of(data_, samples, pool);
    results_[static_cast<std::size_t>(batch)] =
        softmax_cross_entropy(logits.as<float>(), labels.as<std::int32_t>(), 1, {});
  }

  models::SampleShape input_;
  Flat flat_;
  const models::Dataset& data_;
  int size_;
  InferenceModel whole_;
  std::unique_ptr<InferenceModel> last_;
  std::vector<Loss> results_;
  std::atomic<int> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::exception_ptr failure_;
};

}  // namespace

Evaluation evaluate(const models::Model& model, std::span<const float> weights,
                    std::span<const float> statistics, const models::Dataset& data,
                    const EvaluationOptions& options) {
  require(options.batch_size > 0 && options.threads > 0,
          "evaluation: needs at least 1 sample a batch and 1 thread, not {} and {}",
          options.batch_size, options.threads);
  require(data.samples() > 0, "evaluation: the data set {} is empty", data.name);
  models::require_fits(data, model.input);
  const OneMathsThread one_thread;
  // Inference only reads the statistics.
  const Flat flat{weights.data(), nullptr, const_cast<float*>(statistics.data())};
  const int size = batch_size_for(model, std::min(options.batch_size, data.samples()));
  Evaluator evaluator(model, flat, data, size);
  require(static_cast<std::int64_t>(weights.size()) == evaluator.model().weights() &&
              static_cast<std::int64_t>(statistics.size()) == evaluator.model().statistics(),
          "evaluation: model {} has {} weights and {} statistics, {} and {} were given", model.name,
          evaluator.model().weights(), evaluator.model().statistics(), weights.size(),
          statistics.size());
  {
    std::vector<std::jthread> workers;
    for (int t = 0; t < options.threads; ++t) workers.emplace_back([&] { evaluator.work(); });
  }
  return evaluator.result();
}

std::vector<float> joined_weights(std::span<const Tensor> stages) {
  std::vector<float> all;
  for (const Tensor& stage : stages) {
    const auto weights = stage.as<float>();
    all.insert(all.end(), weights.begin(), weights.end());
  }
  return all;
}

std::vector<float> joined_statistics(std::span<const std::unique_ptr<DnnStageModule>> stages) {
  std::vector<float> all;
  for (const auto& stage : stages) {
    const auto statistics = stage->statistics();
    all.insert(all.end(), statistics.begin(), statistics.end());
  }
  return all;
}

}  // namespace unlatch::exec
