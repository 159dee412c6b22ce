#include "models/optimizer_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/specification.h"
#include "schedules/error.h"

namespace unlatch::models {
namespace {

constexpr double largest = std::numeric_limits<double>::max();

struct Key {
  std::string_view name;
  double OptimizerSpec::*number;
  double usual;
  bool below_one = false;
};

struct Entry {
  std::string_view name;
  std::vector<Key> keys;
  double usual_decay = 0;
};

Key momentum(double usual) { return {"momentum", &OptimizerSpec::momentum, usual, true}; }
Key beta1() { return {"beta1", &OptimizerSpec::beta1, 0.9, true}; }
Key beta2() { return {"beta2", &OptimizerSpec::beta2, 0.999, true}; }
Key epsilon(double usual) { return {"epsilon", &OptimizerSpec::epsilon, usual}; }

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {"sgd", {}},
      {"momentum", {momentum(0.9)}},
      {"nesterov", {momentum(0.9)}},
      {"sum", {momentum(0.9), {"s", &OptimizerSpec::s, 1}}},
      {"adagrad", {epsilon(1e-10), {"lr_decay", &OptimizerSpec::lr_decay, 0}}},
      {"adadelta", {{"rho", &OptimizerSpec::rho, 0.9, true}, epsilon(1e-6)}},
      {"rmsprop", {{"alpha", &OptimizerSpec::rho, 0.99, true}, epsilon(1e-8), momentum(0)}},
      {"adam", {beta1(), beta2(), epsilon(1e-8)}},
      {"adamax", {beta1(), beta2(), epsilon(1e-8)}},
      {"nadam",
       {beta1(), beta2(), epsilon(1e-8), {"momentum_decay", &OptimizerSpec::momentum_decay, 4e-3}}},
      {"amsgrad", {beta1(), beta2(), epsilon(1e-8)}},
      {"radam", {beta1(), beta2(), epsilon(1e-8)}},
      {"adamw", {beta1(), beta2(), epsilon(1e-8)}, 0.01},
      {"lars", {momentum(0.9), {"trust", &OptimizerSpec::trust, 0.001}, epsilon(1e-8)}},
      {"lamb", {beta1(), beta2(), epsilon(1e-6)}, 0.01}};
  return all;
}

const Entry& entry_of(const std::string& name) {
  return *std::ranges::find(entries(), name, &Entry::name);
}

}  // namespace

std::vector<std::string_view> optimizer_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return names;
}

OptimizerSpec OptimizerSpec::parse(std::string_view text) {
  const Specification given("optimizer", text);
  given.allow_names(optimizer_names());
  given.refuse_argument();
  const Entry& entry = entry_of(given.name());
  OptimizerSpec spec{.name = given.name()};
  std::vector<std::string_view> allowed;
  for (const Key& key : entry.keys) allowed.push_back(key.name);
  allowed.push_back("decay");
  if (spec.name == "rmsprop") allowed.push_back("centered");
  given.allow_keys(allowed);
  for (const Key& key : entry.keys) {
    double& number = spec.*key.number;
    number = given.number(key.name, key.usual, 0, key.below_one ? 1 : largest);
    require(!key.below_one || number < 1, "optimizer '{}': {} must be below 1", text, key.name);
  }
  if (spec.name == "nesterov") spec.s = 1;
  if (spec.name == "rmsprop") spec.centered = given.word("centered", {"no", "yes"}) == "yes";
  spec.weight_decay = given.number("decay", entry.usual_decay, 0, largest);
  return spec;
}

int OptimizerSpec::slots() const {
  if (coasts()) return momentum == 0 ? 0 : 1;
  if (name == "adagrad") return 1;
  if (name == "rmsprop") return 1 + (momentum == 0 ? 0 : 1) + (centered ? 1 : 0);
  return name == "amsgrad" ? 3 : 2;
}

bool OptimizerSpec::coasts() const {
  return name == "sgd" || name == "momentum" || name == "nesterov" || name == "sum" ||
         name == "lars";
}

double coast_factor(const OptimizerSpec& spec, int steps, double rate) {
  require(spec.coasts(),
          "optimizer {}: no momentum alone says where its weights go, so they cannot be predicted; "
          "use sgd, momentum, nesterov, sum or lars",
          spec.name);
  const double b = spec.momentum;
  const double sum = (b - std::pow(b, steps + 1)) / (1 - b);  // b + b^2 + .. + b^steps
  return rate * (1 - spec.s * (1 - b)) * sum;
}

}  // namespace unlatch::models
