#include "exec/dnn_chain.h"

#include <utility>

namespace unlatch::exec {
namespace {

/// Adds the time between two stops to one layer; reads no clock when nobody asks.
class Stopwatch {
 public:
  explicit Stopwatch(Laps* laps) : laps_(laps) {
    if (laps_ != nullptr) last_ = std::chrono::steady_clock::now();
  }
  void stop(std::size_t layer) {
    if (laps_ == nullptr) return;
    const auto now = std::chrono::steady_clock::now();
    (*laps_)[layer] += std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_);
    last_ = now;
  }

 private:
  Laps* laps_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace

Chain::Chain(std::span<const models::Layer> layers, const Place& input) : input_(input) {
  Place place = input;
  for (const models::Layer& layer : layers) {
    links_.push_back({make_op(layer, place), weights_, statistics_});
    weights_ += models::parameter_count(layer, place.shape);
    statistics_ += models::statistic_count(layer, place.shape);
    place = links_.back().op->output();
  }
}

Flat Chain::at(const Flat& flat, const Link& link) {
  return {flat.weights == nullptr ? nullptr : flat.weights + link.weights,
          flat.gradient == nullptr ? nullptr : flat.gradient + link.weights,
          flat.statistics == nullptr ? nullptr : flat.statistics + link.statistics};
}

Flow Chain::forward(const Flat& flat, Flow input, Kept* kept, Call& call, Laps* laps) const {
  Stopwatch watch(laps);
  Flow flow = std::move(input);
  if (kept != nullptr) kept->inner.resize(links_.size());
  for (std::size_t j = 0; j < links_.size(); ++j) {
    Kept* mine = kept == nullptr ? nullptr : &kept->inner[j];
    flow = links_[j].op->forward(at(flat, links_[j]), std::move(flow), mine, call);
    watch.stop(j);
  }
  return flow;
}

Flow Chain::backward(const Flat& flat, const Kept& kept, Flow gradient, bool wants_input,
                     Call& call, Laps* laps) const {
  Stopwatch watch(laps);
  Flow flow = std::move(gradient);
  for (std::size_t j = links_.size(); j-- > 0;) {
    flow = links_[j].op->backward(at(flat, links_[j]), kept.inner[j], std::move(flow),
                                  wants_input || j > 0, call);
    watch.stop(j);
  }
  return flow;
}

Flow Chain::backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                           Call& call, Laps* laps) const {
  Stopwatch watch(laps);
  Flow flow = std::move(gradient);
  for (std::size_t j = links_.size(); j-- > 0;) {
    flow = links_[j].op->backward_input(at(flat, links_[j]), kept.inner[j], std::move(flow),
                                        wants_input || j > 0, call);
    watch.stop(j);
  }
  return flow;
}

void Chain::backward_weight(const Flat& flat, const Kept& kept, Call& call, Laps* laps) const {
  Stopwatch watch(laps);
  for (std::size_t j = links_.size(); j-- > 0;) {
    links_[j].op->backward_weight(at(flat, links_[j]), kept.inner[j], call);
    watch.stop(j);
  }
}

}  // namespace unlatch::exec
