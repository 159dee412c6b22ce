// CountedTensors and the like: where a stage keeps tensors, tapes and old weights; each tells the
// account what goes in and out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/kept_memory.h"
#include "exec/stage_module.h"
#include "exec/state_visitor.h"

namespace unlatch::exec {

/// One kind of what a stage keeps.
class Counter {
 public:
  Counter() = default;
  Counter(KeptMemory& memory, Stage stage, KeptMemory::Kind kind)
      : memory_(&memory), stage_(stage), kind_(kind) {}

  void add(std::size_t bytes) const { change(1, bytes, 0); }
  void remove(std::size_t bytes) const { change(-1, 0, bytes); }
  void resize(std::size_t from, std::size_t to) const { change(0, to, from); }

 private:
  void change(int count, std::size_t more, std::size_t less) const {
    const auto bytes = static_cast<std::int64_t>(more) - static_cast<std::int64_t>(less);
    memory_->add(stage_, kind_, count, bytes);
  }

  KeptMemory* memory_ = nullptr;
  Stage stage_;
  KeptMemory::Kind kind_ = KeptMemory::Kind::queues;
};

/// Calls visit(i) for the places in use: those that are, or those that were when it was saved.
template <class InUse, class Visit>
void visit_places(StateVisitor& visitor, int places, InUse in_use, Visit visit) {
  std::vector<std::int64_t> used;
  for (int i = 0; i < places; ++i) {
    if (in_use(i)) used.push_back(i);
  }
  visitor.numbers(used);
  for (const std::int64_t i : used) visit(static_cast<int>(i));
}

/// Tensors, a place for each micro-batch.
class CountedTensors {
 public:
  CountedTensors() = default;  ///< without places
  CountedTensors(int places, const Counter& counter) : counter_(counter), tensors_(places) {}

  bool has_places() const { return !tensors_.empty(); }
  const Tensor& at(int i) const { return tensors_[i]; }
  void put(int i, Tensor tensor) {
    size_ = std::max(size_, tensor.bytes());
    counter_.add(tensor.bytes());
    tensors_[i] = std::move(tensor);
  }
  Tensor take(int i) {
    counter_.remove(tensors_[i].bytes());
    return std::exchange(tensors_[i], {});
  }
  /// Of the largest that was put in; 0 if none was.
  std::size_t size() const { return size_; }

  void visit_state(StateVisitor& visitor, std::string_view name) {
    const StateVisitor::Scope scope(visitor, name);
    visitor.number(size_);
    const auto in_use = [&](int i) { return !tensors_[i].empty(); };
    visit_places(visitor, static_cast<int>(tensors_.size()), in_use, [&](int i) {
      visitor.tensor(std::to_string(i), tensors_.at(i));
      if (visitor.restores()) counter_.add(tensors_[i].bytes());
    });
  }

 private:
  Counter counter_;
  std::size_t size_ = 0;
  std::vector<Tensor> tensors_;
};

/// Tapes, a place for each micro-batch.
class CountedTapes {
 public:
  using Tape = StageModule::Tape;

  CountedTapes() = default;
  CountedTapes(int places, const Counter& counter) : counter_(counter), tapes_(places) {}

  Tape& at(int i) const { return *tapes_[i].tape; }
  void put(int i, std::unique_ptr<Tape> tape) {
    const std::size_t bytes = tape->bytes();
    size_ = std::max(size_, bytes);
    counter_.add(bytes);
    tapes_[i] = {bytes, std::move(tape)};
  }
  /// After I, which lets go of a part of it.
  void shrank(int i) {
    const std::size_t bytes = at(i).bytes();
    size_after_input_ = std::max(size_after_input_, bytes);
    counter_.resize(std::exchange(tapes_[i].bytes, bytes), bytes);
  }
  void drop(int i) {
    counter_.remove(tapes_[i].bytes);
    tapes_[i] = {};
  }
  /// Of the largest one, whole and after I; 0 if there was none.
  std::size_t size() const { return size_; }
  std::size_t size_after_input() const { return size_after_input_; }

  void visit_state(StateVisitor& visitor, std::string_view name, StageModule& module) {
    const StateVisitor::Scope scope(visitor, name);
    visitor.number(size_);
    visitor.number(size_after_input_);
    const auto in_use = [&](int i) { return tapes_[i].tape != nullptr; };
    visit_places(visitor, static_cast<int>(tapes_.size()), in_use, [&](int i) {
      const StateVisitor::Scope one(visitor, std::to_string(i));
      Entry& entry = tapes_.at(i);
      if (visitor.restores()) entry.tape = module.empty_tape();
      entry.tape->visit_state(visitor);
      if (!visitor.restores()) return;
      entry.bytes = entry.tape->bytes();
      counter_.add(entry.bytes);
    });
  }

 private:
  struct Entry {
    std::size_t bytes = 0;
    std::unique_ptr<Tape> tape;
  };
  Counter counter_;
  std::vector<Entry> tapes_;
  std::size_t size_ = 0;
  std::size_t size_after_input_ = 0;
};

/// Older versions of the weights that a task will read.
class CountedVersions {
 public:
  CountedVersions() = default;
  explicit CountedVersions(const Counter& counter) : counter_(counter) {}

  const Tensor& at(int version) const { return weights_.at(version); }
  void put(int version, Tensor weights) {
    counter_.add(weights.bytes());
    weights_[version] = std::move(weights);
  }
  void drop(int version) {
    const auto found = weights_.find(version);
    if (found == weights_.end()) return;  // never overwritten
    counter_.remove(found->second.bytes());
    weights_.erase(found);
  }

  void visit_state(StateVisitor& visitor, std::string_view name) {
    const StateVisitor::Scope scope(visitor, name);
    std::vector<std::int64_t> versions;
    for (const auto& [version, weights] : weights_) versions.push_back(version);
    std::ranges::sort(versions);
    visitor.numbers(versions);
    for (const std::int64_t version : versions) {
      Tensor& weights = weights_[static_cast<int>(version)];
      visitor.parameters(std::to_string(version), weights);
      if (visitor.restores()) counter_.add(weights.bytes());
    }
  }

 private:
  Counter counter_;
  std::unordered_map<int, Tensor> weights_;
};

}  // namespace unlatch::exec
