// StateVisitor: sees everything that a run keeps between tasks; whoever keeps something describes
// it once, for saving and for restoring.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/tensor.h"

namespace unlatch::exec {

/// Saving reads what it is shown, restoring overwrites it. Both must be shown the same things in
/// the same order: what comes next may depend on the numbers before it, as those are restored by
/// then. While no task runs.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual bool restores() const = 0;

  virtual void numbers(std::vector<std::int64_t>& values) = 0;
  template <class Whole>
  void number(Whole& value) {
    std::vector<std::int64_t> one{static_cast<std::int64_t>(value)};
    numbers(one);
    value = static_cast<Whole>(one.at(0));
  }
  /// Bit for bit.
  void value(double& value) {
    auto bits = std::bit_cast<std::int64_t>(value);
    number(bits);
    value = std::bit_cast<double>(bits);
  }

  /// Of any content and size, or empty. Tensors that share memory share it again afterwards. A
  /// tensor that has memory when it is restored must be of the size that it had when it was saved.
  void tensor(std::string_view name, Tensor& value) { visit_tensor(name, value, false); }
  /// The same of weights, gradients and other numbers in the precision of the run.
  void parameters(std::string_view name, Tensor& value) { visit_tensor(name, value, true); }
  virtual void reals(std::string_view name, std::span<float> values) = 0;
  virtual void reals(std::string_view name, std::span<double> values) = 0;
  /// Of any size.
  template <class Real>
  void reals_of_any_size(std::string_view name, std::vector<Real>& values) {
    std::size_t size = values.size();
    number(size);
    values.resize(size);
    reals(name, std::span<Real>(values));
  }

  /// What is visited during its life has a name within this one: "stage 2/weights".
  class Scope {
   public:
    Scope(StateVisitor& visitor, std::string_view name)
        : visitor_(visitor), before_(visitor.path_.size()) {
      visitor_.path_.append(name).append("/");
    }
    ~Scope() { visitor_.path_.resize(before_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StateVisitor& visitor_;
    std::size_t before_;
  };

 protected:
  virtual void visit_tensor(std::string_view name, Tensor& value, bool holds_parameters) = 0;
  std::string path_to(std::string_view name) const { return path_ + std::string(name); }

 private:
  std::string path_;
};

}  // namespace unlatch::exec
