// Chain: layers one after the other, as one stage or as a branch of a residual block.
#pragma once

#include <chrono>
#include <span>

#include "exec/dnn_op.h"

namespace unlatch::exec {

/// Time of each layer of a chain, in ns; for the profile.
using Laps = std::vector<std::chrono::nanoseconds>;

class Chain {
 public:
  Chain(std::span<const models::Layer> layers, const Place& input);

  /// Where the last layer leaves its output.
  const Place& output() const { return links_.empty() ? input_ : links_.back().op->output(); }
  const Place& input() const { return input_; }
  std::int64_t weights() const { return weights_; }        ///< floats in the flat weights
  std::int64_t statistics() const { return statistics_; }  ///< floats in the flat statistics
  int layers() const { return static_cast<int>(links_.size()); }
  /// Of the output of one layer, in its own layout.
  std::size_t output_bytes(int layer) const {
    return links_[static_cast<std::size_t>(layer)].op->output().layout.get_size();
  }

  Flow forward(const Flat& flat, Flow input, Kept* kept, Call& call, Laps* laps = nullptr) const;
  /// Layer by layer I and W, so that a layer's output gradient goes as soon as it can.
  Flow backward(const Flat& flat, const Kept& kept, Flow gradient, bool wants_input, Call& call,
                Laps* laps = nullptr) const;
  /// I of all layers; what W does not need is let go as each layer is done.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input, Call& call,
                      Laps* laps = nullptr) const;
  void backward_weight(const Flat& flat, const Kept& kept, Call& call, Laps* laps = nullptr) const;

 private:
  struct Link {
    std::unique_ptr<Op> op;
    std::int64_t weights;  ///< first float of this layer
    std::int64_t statistics;
  };
  static Flat at(const Flat& flat, const Link& link);

  Place input_;
  std::vector<Link> links_;
  std::int64_t weights_ = 0;
  std::int64_t statistics_ = 0;
};

}  // namespace unlatch::exec
