// LayerChain: layers one after the other, as one stage or as a branch of a residual block.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exec/layer_op.h"

namespace unlatch::exec {

/// Time of each layer of a chain, in ns; for the profile.
using Laps = std::vector<std::chrono::nanoseconds>;

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

/// Of a LayerOp and the make_op(layer, place) of its library.
template <class Op>
class LayerChain {
 public:
  using Place = typename Op::Place;
  using Call = typename Op::Call;

  LayerChain(std::span<const models::Layer> layers, const Place& input) : input_(input) {
    Place place = input;
    for (const models::Layer& layer : layers) {
      // The table of tokens comes first in the weights of a model's first layer.
      const std::int64_t first = models::is_tied(layer) ? 0 : weights_;
      links_.push_back({make_op(layer, place), first, statistics_});
      weights_ += models::parameter_count(layer, place.shape);
      statistics_ += models::statistic_count(layer, place.shape);
      place = links_.back().op->output();
    }
  }

  /// Where the last layer leaves its output.
  const Place& output() const { return links_.empty() ? input_ : links_.back().op->output(); }
  const Place& input() const { return input_; }
  std::int64_t weights() const { return weights_; }        ///< floats in the flat weights
  std::int64_t statistics() const { return statistics_; }  ///< floats in the flat statistics
  int layers() const { return static_cast<int>(links_.size()); }
  /// Of the output of one layer, in its own layout.
  std::size_t output_bytes(int layer) const {
    return links_[static_cast<std::size_t>(layer)].op->output().bytes();
  }

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call, Laps* laps = nullptr) const {
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

  /// Layer by layer I and W, so that a layer's output gradient goes as soon as it can.
  Flow backward(const Flat& flat, const Kept& kept, Flow gradient, bool wants_input, Call& call,
                Laps* laps = nullptr) const {
    Stopwatch watch(laps);
    Flow flow = std::move(gradient);
    for (std::size_t j = links_.size(); j-- > 0;) {
      flow = links_[j].op->backward(at(flat, links_[j]), kept.inner[j], std::move(flow),
                                    wants_input || j > 0, call);
      watch.stop(j);
    }
    return flow;
  }

  /// I of all layers; what W does not need is let go as each layer is done.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input, Call& call,
                      Laps* laps = nullptr) const {
    Stopwatch watch(laps);
    Flow flow = std::move(gradient);
    for (std::size_t j = links_.size(); j-- > 0;) {
      flow = links_[j].op->backward_input(at(flat, links_[j]), kept.inner[j], std::move(flow),
                                          wants_input || j > 0, call);
      watch.stop(j);
    }
    return flow;
  }

  void backward_weight(const Flat& flat, const Kept& kept, Call& call, Laps* laps = nullptr) const {
    Stopwatch watch(laps);
    for (std::size_t j = links_.size(); j-- > 0;) {
      links_[j].op->backward_weight(at(flat, links_[j]), kept.inner[j], call);
      watch.stop(j);
    }
  }

 private:
  struct Link {
    std::unique_ptr<Op> op;
    std::int64_t weights;  ///< first float of this layer
    std::int64_t statistics;
  };
  static Flat at(const Flat& flat, const Link& link) {
    return {flat.weights == nullptr ? nullptr : flat.weights + link.weights,
            flat.gradient == nullptr ? nullptr : flat.gradient + link.weights,
            flat.statistics == nullptr ? nullptr : flat.statistics + link.statistics, flat.draw};
  }

  Place input_;
  std::vector<Link> links_;
  std::int64_t weights_ = 0;
  std::int64_t statistics_ = 0;
};

}  // namespace unlatch::exec
