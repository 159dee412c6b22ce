// OptimizerSpec: which optimizer, with which constants.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unlatch::models {

/// What text like "adam:beta1=0.9,epsilon=1e-8" says. Which of the numbers count depends on the
/// name; models/optimizer_rules.h and models/trust_rules.h have the formulas.
struct OptimizerSpec {
  std::string name = "sgd";
  double momentum = 0;      ///< b of the velocity family, lars and rmsprop; 0 <= b < 1
  double s = 0;             ///< sum
  double weight_decay = 0;  ///< on the weights at update time
  double beta1 = 0;         ///< adam's family and lamb; 0 <= beta < 1
  double beta2 = 0;
  double rho = 0;             ///< adadelta, and rmsprop, which calls it alpha
  double epsilon = 0;         ///< >= 0
  double lr_decay = 0;        ///< adagrad
  double momentum_decay = 0;  ///< nadam
  double trust = 0;           ///< lars: the coefficient eta
  bool centered = false;      ///< rmsprop

  /// NAME[:key=value[,key=value..]]. Every optimizer takes "decay", the weight decay: added to the
  /// gradient, but decoupled from it for adamw and lamb. Defaults are PyTorch's where PyTorch has
  /// the optimizer, else those of the papers and of NVIDIA's apex.
  /// Throws Error with the closest valid names and keys.
  static OptimizerSpec parse(std::string_view text);

  /// Numbers of the state for each parameter.
  int slots() const;
  /// sgd, momentum, nesterov, sum, lars: the velocity alone moves the weights on.
  bool coasts() const;
  /// Gathers earlier gradients in its direction.
  bool has_momentum() const { return momentum > 0 || beta1 > 0; }
  /// lars, lamb: a step depends on the norms of whole tensors.
  bool is_per_tensor() const { return name == "lars" || name == "lamb"; }
};

/// All names, for messages and lists.
std::vector<std::string_view> optimizer_names();

/// What `steps` more steps at this rate would take of the weights for each unit of velocity, if all
/// gradients to come were 0 and nothing decayed. Throws Error unless the optimizer coasts().
double coast_factor(const OptimizerSpec& spec, int steps, double rate);

}  // namespace unlatch::models
