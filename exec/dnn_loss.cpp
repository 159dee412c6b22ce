#include "exec/dnn_loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedules/error.h"

namespace unlatch::exec {
namespace {

/// The largest logit is taken off first, so that no exponential overflows. `exponentials` has room
/// for those of a row.
double row_loss(std::span<const float> row, std::size_t label, double share,
                std::span<float> gradient, std::span<double> exponentials) {
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (std::size_t c = 0; c < row.size(); ++c) {
    sum += exponentials[c] = std::exp(row[c] - largest);
  }
  for (std::size_t c = 0; c < gradient.size(); ++c) {
    const double probability = exponentials[c] / sum;
    gradient[c] = static_cast<float>(share * (probability - (c == label ? 1 : 0)));
  }
  return std::log(sum) + largest - row[label];
}

}  // namespace

Loss softmax_cross_entropy(std::span<const float> logits, std::span<const std::int32_t> labels,
                           double scale, std::span<float> gradient) {
  const std::size_t rows = labels.size();
  require(rows > 0 && logits.size() % rows == 0,
          "softmax cross entropy: {} logits do not belong to {} labels", logits.size(), rows);
  const std::size_t classes = logits.size() / rows;
  Loss result{.samples = static_cast<int>(rows)};
  const double share = scale / static_cast<double>(rows);
  std::vector<double> exponentials(classes);
  for (std::size_t n = 0; n < rows; ++n) {
    const auto row = logits.subspan(n * classes, classes);
    require(labels[n] >= 0 && static_cast<std::size_t>(labels[n]) < classes,
            "softmax cross entropy: label {} with {} classes; give the model the data set's number "
            "of classes",
            labels[n], classes);
    const auto label = static_cast<std::size_t>(labels[n]);
    const auto out = gradient.empty() ? gradient : gradient.subspan(n * classes, classes);
    result.loss += row_loss(row, label, share, out, exponentials);
    const auto best = std::ranges::max_element(row) - row.begin();
    result.correct += static_cast<std::size_t>(best) == label ? 1 : 0;
  }
  result.loss /= static_cast<double>(rows);
  return result;
}

}  // namespace unlatch::exec
