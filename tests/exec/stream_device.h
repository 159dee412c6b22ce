// A device without a device: stages of the scalar chain whose tensors lie in stream memory, with
// every access noted.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "exec/local_head.h"
#include "exec/stage_module.h"
#include "exec/stream_memory.h"
#include "exec/task_runner.h"
#include "tests/support/recording_streams.h"

namespace unlatch::exec {

using testing_support::RecordingStreams;

class HostMemory : public DeviceMemory {
 public:
  std::byte* allocate(Rank, std::size_t bytes) override {
    if (allocated_ + bytes > most_) return nullptr;
    allocated_ += bytes;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(256, bytes));
    sizes_[memory] = bytes;
    return memory;
  }
  void release(Rank, std::byte* memory) noexcept override {
    allocated_ -= sizes_.extract(memory).mapped();
    std::free(memory);
  }
  std::optional<Room> room(Rank) override { return Room{most_ - allocated_, most_}; }
  int device_of(Rank rank) const override { return rank.value % devices_; }
  void limit(std::size_t most) { most_ = most; }
  void share_among(int devices) { devices_ = devices; }

 private:
  std::map<std::byte*, std::size_t> sizes_;
  std::size_t allocated_ = 0;
  std::size_t most_ = ~std::size_t{0} / 2;
  int devices_ = 1;
};

/// The device of one run: tensors in stream memory, each access noted. With `scratch`, F, B, I and
/// W each take so many bytes while they run.
struct Device {
  Device(const TaskGraph& g, int window, std::size_t limit)
      : graph(g), streams(g), order(g, streams, window), memory(g, order, source, limit) {}

  Tensor taken(Stage stage, const Tensor& values) {
    if (values.empty()) return {};
    const Tensor tensor = memory.take(graph.rank_of(stage), values.bytes());
    std::memcpy(tensor.data<std::byte>(), values.data<std::byte>(), values.bytes());
    touch(tensor, true);
    return tensor;
  }
  /// For the task at hand.
  Tensor taken_here(const Tensor& values) {
    return taken(graph.task(*order.current()).stage, values);
  }
  bool is_here(const Tensor& tensor) const {
    return memory.device_of(tensor) == source.device_of(graph.lanes()[order.lane().value].rank);
  }
  /// A task reads and writes what is on its device; only copies reach over, and AR of all copies.
  void touch(const Tensor& tensor, bool writes) {
    const bool runs = order.current() && graph.task(*order.current()).op != Op::all_reduce;
    EXPECT_TRUE(!runs || is_here(tensor)) << label(graph.task(*order.current()));
    touch_anywhere(tensor, writes);
  }
  Tensor scratch_of(Stage stage) { return memory.take(graph.rank_of(stage), scratch); }
  void touch_anywhere(const Tensor& tensor, bool writes) {
    memory.use(tensor);
    if (order.current()) streams.access(order.lane(), tensor.data<std::byte>(), writes);
  }

  const TaskGraph& graph;
  RecordingStreams streams;
  StreamOrder order;
  HostMemory source;
  StreamMemory memory;
  std::size_t scratch = 0;
};

/// The host's, each access noted; states are brought to where the task at hand runs.
class DeviceMath : public ParameterMath {
 public:
  DeviceMath(Device& device, ParameterMath& host) : device_(device), host_(host) {}

  void clear(Tensor& tensor) override {
    device_.touch(tensor, true);
    host_.clear(tensor);
  }
  void add(const Tensor& more, Tensor& sum) override {
    device_.touch_anywhere(more, false);
    device_.touch(sum, true);
    host_.add(more, sum);
  }
  void compensate(const Compensation& spec, Tensor& mean_square, Tensor& gradient,
                  const Tensor& weights, const Tensor& sent) override {
    bring(mean_square);
    if (!mean_square.empty()) device_.touch(mean_square, true);
    device_.touch(gradient, true);
    for (const Tensor& read : {weights, sent}) device_.touch(read, false);
    host_.compensate(spec, mean_square, gradient, weights, sent);
  }
  void local_step(const LocalStep& spec, Tensor& weights, const Tensor& gradient,
                  const Tensor& earlier, double rate) override {
    device_.touch(weights, true);
    for (const Tensor& read : {gradient, earlier}) device_.touch(read, false);
    host_.local_step(spec, weights, gradient, earlier, rate);
  }
  void compress(const Compression& spec, int update, Gathered& gathered,
                Tensor& gradient) override {
    for (const Tensor& state : {gathered.momentum, gathered.sum, gradient}) {
      device_.touch(state, true);
    }
    host_.compress(spec, update, gathered, gradient);
  }
  Tensor square_sum(const Tensor& gradient) override {
    device_.touch(gradient, false);
    return device_.taken_here(host_.square_sum(gradient));
  }
  void clip(double most, std::span<const Tensor> squares, Tensor& gradient) override {
    for (const Tensor& of_one : squares) device_.touch_anywhere(of_one, false);
    device_.touch(gradient, true);
    host_.clip(most, squares, gradient);
  }
  void note_step(double kept, Tensor& mean, const Tensor& before, const Tensor& after) override {
    device_.touch(mean, true);
    for (const Tensor& read : {before, after}) device_.touch(read, false);
    host_.note_step(kept, mean, before, after);
  }
  void move_back(int delay, const Tensor& mean, Tensor& weights) override {
    device_.touch(mean, false);
    device_.touch(weights, true);
    host_.move_back(delay, mean, weights);
  }

 private:
  void bring(Tensor& state) {
    if (state.empty() || device_.is_here(state)) return;
    device_.touch_anywhere(state, false);
    state = device_.taken_here(state);
  }

  Device& device_;
  ParameterMath& host_;
};

/// A stage of the scalar chain whose tensors and tapes lie in stream memory.
class DeviceStage : public StageModule {
 public:
  DeviceStage(Device& device, Stage stage, StageModule& host)
      : device_(device), stage_(stage), host_(host), math_(device, host.math()) {}

  Tensor initial_weights() const override { return device_.taken(stage_, host_.initial_weights()); }
  Tensor zero_gradient() const override { return device_.taken(stage_, host_.zero_gradient()); }

  Tensor forward(const Tensor& weights, const Tensor& input, Pass pass, std::unique_ptr<Tape>* tape,
                 Workspace& workspace) override {
    const Tensor scratch = device_.scratch_of(stage_);
    device_.touch(weights, false);
    device_.touch(input, false);
    std::unique_ptr<Tape> inner;
    const Tensor output =
        host_.forward(weights, input, pass, tape == nullptr ? nullptr : &inner, workspace);
    if (tape != nullptr) {
      // The input is kept, as a layer keeps it, and something of the layers' own, which grows with
      // the stage; and what only I needs.
      Tensor own = device_.memory.take(device_.graph.rank_of(stage_), weights.bytes());
      *tape = std::make_unique<DeviceTape>(std::move(inner), input, std::move(own),
                                           device_.taken(stage_, output));
    }
    return device_.taken(stage_, output);
  }
  Tensor backward(const Tensor& weights, const Tape& tape, const Tensor& gradient, double scale,
                  bool wants_input, Tensor& sums, Workspace& workspace) override {
    const auto& mine = static_cast<const DeviceTape&>(tape);
    const Tensor scratch = device_.scratch_of(stage_);
    for (const Tensor& read : {weights, gradient, mine.input, mine.own, mine.for_input})
      device_.touch(read, false);
    device_.touch(sums, true);
    return device_.taken(stage_, host_.backward(weights, *mine.inner, gradient, scale, wants_input,
                                                sums, workspace));
  }
  Tensor backward_input(const Tensor& weights, Tape& tape, const Tensor& gradient, double scale,
                        bool wants_input, Workspace& workspace) override {
    auto& mine = static_cast<DeviceTape&>(tape);
    const Tensor scratch = device_.scratch_of(stage_);
    for (const Tensor& read : {weights, gradient, mine.input, mine.for_input})
      device_.touch(read, false);
    device_.touch(mine.own, true);
    mine.for_input = {};
    return device_.taken(stage_, host_.backward_input(weights, *mine.inner, gradient, scale,
                                                      wants_input, workspace));
  }
  void backward_weight(const Tape& tape, Tensor& sums, Workspace& workspace) override {
    const auto& mine = static_cast<const DeviceTape&>(tape);
    const Tensor scratch = device_.scratch_of(stage_);
    for (const Tensor& read : {mine.input, mine.own}) device_.touch(read, false);
    device_.touch(sums, true);
    host_.backward_weight(*mine.inner, sums, workspace);
  }
  Loss loss(const Tensor& output, const Tensor& target, double scale, Tensor* gradient,
            Workspace& workspace) override {
    device_.touch(output, false);
    device_.touch(target, false);
    Tensor found;
    const Loss loss = host_.loss(output, target, scale, &found, workspace);
    *gradient = device_.taken(stage_, found);
    return loss;
  }
  /// As a device tells it: once the host hears of the task's end.
  void report_loss(const Tensor& output, const Tensor& target, double scale, Tensor* gradient,
                   Workspace& workspace, std::function<void(const Loss&)> report) override {
    const Loss found = loss(output, target, scale, gradient, workspace);
    device_.order.then([report = std::move(report), found] { report(found); });
  }
  std::size_t optimizer_bytes() const override { return host_.optimizer_bytes(); }
  Tensor received(Tensor tensor) override {
    if (device_.is_here(tensor)) return tensor;
    device_.touch_anywhere(tensor, false);
    return device_.taken(stage_, tensor);
  }
  /// Where the task at hand runs, which may be a copy's that steps a server's weights.
  Tensor copy_of(const Tensor& weights) override {
    device_.touch_anywhere(weights, false);
    return device_.taken_here(weights);
  }
  void all_reduce(std::span<Tensor* const> tensors, double factor) override {
    for (const Tensor* tensor : tensors) device_.touch(*tensor, true);
    host_.all_reduce(tensors, factor);
  }
  ParameterMath& math() override { return math_; }
  Tensor predicted(const Tensor& weights, int updates, double rate) override {
    device_.touch(weights, false);
    return device_.taken(stage_, host_.predicted(weights, updates, rate));
  }
  void update(Tensor& weights, Tensor& gradient, double rate) override {
    device_.touch(weights, true);
    device_.touch(gradient, true);
    host_.update(weights, gradient, rate);
  }

 private:
  struct DeviceTape : Tape {
    DeviceTape(std::unique_ptr<Tape> inner_tape, Tensor read, Tensor kept, Tensor kept_for_input)
        : inner(std::move(inner_tape)),
          input(std::move(read)),
          own(std::move(kept)),
          for_input(std::move(kept_for_input)) {}
    /// On the device; what the host's stage keeps is no part of it.
    std::size_t bytes() const override { return input.bytes() + own.bytes() + for_input.bytes(); }
    std::unique_ptr<Tape> inner;
    Tensor input;
    Tensor own;
    Tensor for_input;
  };

  Device& device_;
  Stage stage_;
  StageModule& host_;
  DeviceMath math_;
};

/// A head of the scalar chain whose parameters, and sums of their gradients, lie in stream memory
/// as far as accesses tell.
class DeviceHead : public LocalHead {
 public:
  DeviceHead(Device& device, Stage stage, LocalHead& host)
      : device_(device),
        stage_(stage),
        host_(host),
        parameters_(device.memory.take(device.graph.rank_of(stage),
                                       host.bytes().weights + host.bytes().gradient)) {}

  Tensor gradient(const Tensor& from, const Tensor& target, double scale,
                  Workspace& workspace) override {
    device_.touch(from, false);
    if (!target.empty()) device_.touch(target, false);
    device_.touch(parameters_, host_.bytes().gradient > 0);
    return device_.taken(stage_, host_.gradient(from, target, scale, workspace));
  }
  void learn(const Tensor& output, const Tensor& target, const Tensor& gradient,
             Workspace& workspace) override {
    device_.touch(output, false);
    if (!target.empty()) device_.touch(target, false);
    device_.touch(gradient, false);
    device_.touch(parameters_, true);
    host_.learn(output, target, gradient, workspace);
  }
  void update(double rate) override {
    device_.touch(parameters_, true);
    host_.update(rate);
  }
  std::vector<double> parameters() const override { return host_.parameters(); }
  Bytes bytes() const override { return host_.bytes(); }

 private:
  Device& device_;
  Stage stage_;
  LocalHead& host_;
  Tensor parameters_;
};

/// Of all stages, with those of the host that they belong to; null where there is none.
struct DeviceHeads {
  DeviceHeads(Device& device, std::vector<std::unique_ptr<LocalHead>> of_host)
      : host(std::move(of_host)) {
    for (std::size_t k = 0; k < host.size(); ++k) {
      owned.push_back(host[k] == nullptr ? nullptr
                                         : std::make_unique<DeviceHead>(
                                               device, Stage{static_cast<int>(k)}, *host[k]));
      lent.push_back(owned.back().get());
    }
  }

  std::vector<std::unique_ptr<LocalHead>> host;
  std::vector<std::unique_ptr<LocalHead>> owned;
  std::vector<LocalHead*> lent;
};

class DeviceFeed : public Feed {
 public:
  DeviceFeed(Device& device, Feed& host) : device_(device), host_(host) {}
  Tensor input(MicroBatch i) override { return copied(host_.input(i)); }
  Tensor target(MicroBatch i) override { return copied(host_.target(i)); }
  Share share(MicroBatch i) const override { return host_.share(i); }

 private:
  Tensor copied(const Tensor& values) {
    return device_.taken(device_.graph.task(*device_.order.current()).stage, values);
  }
  Device& device_;
  Feed& host_;
};

/// Puts tasks on streams and no work in them.
class NoWork : public TaskRunner {
 public:
  void run(const Task&, Workspace&) override {}
};

}  // namespace unlatch::exec
