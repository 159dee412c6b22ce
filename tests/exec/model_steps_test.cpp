// Every kind of model on every schedule: what one update does to it (cases O43, O44 and O47),
// against the whole model by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "exec/cpu_backend.h"
#include "exec/executor.h"
#include "models/parameter_tensors.h"
#include "schedules/joint_updates.h"
#include "schedules/registry.h"
#include "tests/exec/model_cases.h"

namespace unlatch::exec {
namespace {

using Floats = std::vector<float>;

Floats difference(const Floats& a, const Floats& b) {
  Floats result(a.size());
  std::ranges::transform(a, b, result.begin(), std::minus<>());
  return result;
}

Floats scaled(Floats values, double factor) {
  for (float& value : values) value = static_cast<float>(value * factor);
  return values;
}

double length(const Floats& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

Floats tail(const Floats& values, std::size_t count) {
  return {values.end() - static_cast<std::ptrdiff_t>(count), values.end()};
}

// ---- one step at the initial weights -----------------------------------------------------------

/// Batches of which the last one alone moves weights, so that all losses and the one gradient are
/// those of the initial weights, however stale a schedule is.
class OneStep {
 public:
  static constexpr double rate = 1;

  explicit OneStep(NetworkRun run) : group_(1) {
    const ScheduleSpec spec = ScheduleSpec::parse(run.schedule);
    const Options options = spec.options(shape_of(run));
    if (options.find("accumulate") != nullptr) {
      group_ = static_cast<int>(options.number("accumulate"));
    }
    sums_group_ = options.find("reduce") != nullptr && options.is("reduce", "sum");
    batches_ = (4 + group_ - 1) / group_ * group_;
    run.batches = batches_;
    run.rate = [last = batches_ - 1](int batch) { return batch == last ? rate : 0; };
    network_ = std::make_unique<Network>(run);
    for (int copy = 0; copy < shape().copies; ++copy) initial_.push_back(network_->weights(copy));
    if (!fits()) return;
    CpuBackend backend(graph(), network_->runner());
    exec::run(graph(), backend);
  }

  /// One forward and backward by hand are all that it does with a batch.
  bool fits() const { return !sees_samples_again(graph()); }

  const Shape& shape() const { return graph().shape(); }
  const std::vector<Floats>& initial() const { return initial_; }  ///< of each copy
  Floats weights() const { return network_->weights(); }
  int group() const { return group_; }  ///< batches whose gradients make one update

  double first_loss() const {
    const auto first = network_->losses().begin();
    return std::accumulate(first, first + shape().micro_batches, 0.0) / shape().micro_batches;
  }

  /// The step by hand: along the mean gradient of the last batch, or of the last ones where a
  /// method accumulates them. A server takes the mean of each copy's share by itself.
  Floats gradient(ByHand& hand) const {
    const int last = batches_ - 1;
    Floats sum = hand.batch(last).gradient;
    for (int b = 1; b < group_; ++b) {
      std::ranges::transform(sum, hand.batch(last - b).gradient, sum.begin(), std::plus<>());
    }
    const int shares = is_served(shape(), graph().learning()) ? shape().copies : 1;
    return scaled(sum, sums_group_ ? shares : double(shares) / group_);
  }

  /// Weights at the end that learn from the loss itself: all but where stages have local heads.
  std::size_t comparable() const {
    const Floats all = weights();
    if (graph().learning().local_gradients.source == GradientSource::next_stage) return all.size();
    return network_->runner().weights(shape().last_of(Stage{0})).as<float>().size();
  }

 private:
  const TaskGraph& graph() const { return network_->graph(); }

  int group_;
  bool sums_group_;
  int batches_;
  std::unique_ptr<Network> network_;
  std::vector<Floats> initial_;
};

/// Of one run against the model by hand.
struct Compared {
  std::string run;
  double step_difference = 0;          ///< relative
  double first_difference = 0;         ///< of the loss of the first batch, relative
  bool starts_equal = false;           ///< each copy of the model
  std::optional<bool> same_bits = {};  ///< of the step, where a gradient is of one term
};

Compared compared(const ModelCase& model, const NetworkRun& run, const OneStep& step) {
  const int parts = step.shape().micro_batches;
  ByHand& hand = at_once_by_hand(model, parts);
  const std::size_t count = step.comparable();
  const Floats gradient = step.gradient(hand);
  const auto all_equal = [&](const Floats& copy) { return copy == hand.initial_weights(); };
  const std::vector<double>& losses = hand.batch(0).losses;
  const double mean =
      std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  Compared result{.run = described(run),
                  .step_difference = relative_difference(
                      tail(difference(step.initial().front(), step.weights()), count),
                      tail(scaled(gradient, OneStep::rate), count)),
                  .first_difference = std::abs(step.first_loss() / mean - 1),
                  .starts_equal = std::ranges::all_of(step.initial(), all_equal)};
  if (parts == 1 && step.group() == 1) {
    result.same_bits =
        tail(step.weights(), count) == tail(hand.stepped(gradient, OneStep::rate), count);
  }
  return result;
}

const std::vector<Compared>& all_compared() {
  static const std::vector<Compared> all = [] {
    std::vector<Compared> found;
    for_every_run([&](const ModelCase& model, const NetworkRun& run) {
      const OneStep step(run);
      if (step.fits()) found.push_back(compared(model, run, step));
      return step.fits();
    });
    return found;
  }();
  return all;
}

// ---- O43 and O47 -------------------------------------------------------------------------------

TEST(O43, GradientsAreScaledOnce) {
  for (const Compared& one : all_compared()) EXPECT_LE(one.step_difference, 1e-5) << one.run;
  EXPECT_GT(all_compared().size(), 400u);
}

TEST(O47, ModelsStartAsTheSameForEveryCut) {
  for (const Compared& one : all_compared()) EXPECT_TRUE(one.starts_equal) << one.run;
}

TEST(O47, TheFirstLossIsThatOfTheWholeBatch) {
  for (const Compared& one : all_compared()) EXPECT_LE(one.first_difference, 1e-6) << one.run;
}

/// Recomputing ones among them, with dropout.
TEST(O47, AStepOfOneTermIsTheSameBitForBitForEveryCut) {
  int exact = 0;
  for (const Compared& one : all_compared()) {
    EXPECT_TRUE(one.same_bits.value_or(true)) << one.run;
    exact += one.same_bits ? 1 : 0;
  }
  EXPECT_GT(exact, 80);
}

TEST(O47, LayersStartDifferently) {
  for (const ModelCase& model : model_cases()) {
    SCOPED_TRACE(model.model);
    const models::Model made = model_of(model);
    const models::StageRange whole{0, static_cast<int>(made.layers.size()) - 1};
    const Floats weights = models::initial_weights(made, whole, network_seed);
    std::vector<models::ParameterTensor> tensors = models::parameter_tensors(made, whole);
    std::erase_if(tensors, [](const auto& tensor) { return !tensor.adapted; });
    for (const auto& a : tensors) {
      for (const auto& b : tensors) {
        const auto common = static_cast<std::ptrdiff_t>(std::min(a.elements, b.elements));
        const auto of_a = weights.begin() + static_cast<std::ptrdiff_t>(a.first);
        const auto of_b = weights.begin() + static_cast<std::ptrdiff_t>(b.first);
        if (a.first >= b.first) continue;
        EXPECT_FALSE(std::equal(of_a, of_a + common, of_b)) << a.first << " and " << b.first;
      }
    }
  }
}

// ---- O44 ---------------------------------------------------------------------------------------

TEST(O44, GradientsAreClippedByTheNormOfTheWholeModel) {
  const int runs = for_every_run([](const ModelCase& model, NetworkRun run) {
    const ScheduleSpec spec = ScheduleSpec::parse(run.schedule);
    if (!spec.method().synchronous) return false;
    ByHand& hand = at_once_by_hand(model, spec.effective(shape_of(run)).micro_batches);
    const Floats& gradient = hand.batch(0).gradient;
    run.rate = [](int) { return OneStep::rate; };
    run.arranged = with_joint_updates;
    run.clip = models::GradientClip{.most = length(gradient) / 4};
    EXPECT_LE(relative_difference(difference(hand.initial_weights(), train(run)),
                                  scaled(gradient, OneStep::rate / 4)),
              1e-5);
    return true;
  });
  EXPECT_GT(runs, 150);
}

}  // namespace
}  // namespace unlatch::exec
