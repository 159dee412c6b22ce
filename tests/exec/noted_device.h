// A device without a device whose work can be noted and launched again, as CUDA graphs do: stages
// of a scalar chain that compute only when their work is run.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "exec/stage_module.h"
#include "exec/stream_memory.h"
#include "exec/stream_replay.h"
#include "schedules/error.h"
#include "tests/exec/stream_device.h"
#include "tests/support/recording_streams.h"

namespace unlatch::exec {

/// Runs what it is given at once, or notes it.
class NotedStreams : public GraphStreams {
 public:
  explicit NotedStreams(const TaskGraph& graph) : recording_(graph) {}

  void run(std::function<void()> work) {
    if (noting_) {
      graphs_.back().push_back(std::move(work));
    } else {
      work();
    }
  }

  void record(int mark, LaneId lane) override {
    run([=, this] { recording_.record(mark, lane); });
  }
  void wait(LaneId lane, int mark) override {
    run([=, this] { recording_.wait(lane, mark); });
  }
  nanoseconds reached(int mark) override { return recording_.reached(mark); }
  void fork_lanes() override {
    run([this] { recording_.join_lanes(); });
  }
  void join_lanes() override {
    run([this] { recording_.join_lanes(); });
  }
  void begin_capture() override {
    noting_ = true;
    graphs_.emplace_back();
  }
  int end_capture() override {
    noting_ = false;
    return static_cast<int>(graphs_.size()) - 1;
  }
  void give_up_capture() noexcept override {
    noting_ = false;
    ++given_up;
  }
  void launch_graph(int graph, int, int) override {
    for (const auto& work : graphs_[static_cast<std::size_t>(graph)]) work();
  }
  void destroy_graph(int graph) noexcept override {
    graphs_[static_cast<std::size_t>(graph)].clear();
    ++destroyed;
  }
  void note_piece(int) override {}
  void wait_for_piece(int) override {}

  RecordingStreams& recording() { return recording_; }
  int given_up = 0;
  int destroyed = 0;

 private:
  RecordingStreams recording_;
  bool noting_ = false;
  std::vector<std::vector<std::function<void()>>> graphs_;
};

/// The device of one run, cut into pieces of a batch.
struct NotedDevice {
  explicit NotedDevice(const TaskGraph& g)
      : graph(g),
        piece_tasks(tasks_that_repeat(g)),
        streams(g),
        replay(streams, piece_tasks),
        order(g, replay, 2 * piece_tasks),
        memory(g, order, source),
        places(2 * static_cast<std::size_t>(order.window()), 0),
        losses(static_cast<std::size_t>(order.window()), 0) {}

  Tensor taken() { return memory.take(graph.rank(graph.task(*order.current())), sizeof(double)); }
  Tensor uploaded(Stage stage, double value) {
    const Tensor tensor = memory.take(graph.rank_of(stage), sizeof(double));
    *tensor.data<double>() = value;
    return tensor;
  }
  double* used(const Tensor& tensor) {
    memory.use(tensor);
    return tensor.data<double>();
  }
  /// `kernel` gets what notes its accesses, then the arguments.
  template <class... P, class... A>
  void launch(void (*kernel)(NotedDevice&, LaneId, P...), A... arguments) {
    const LaneId lane = order.lane();
    replay.add(StreamReplay::words_of(kernel, lane, arguments...),
               [=, this] { streams.run([=, this] { kernel(*this, lane, arguments...); }); });
  }
  double read(LaneId lane, const double* from) {
    streams.recording().access(lane, from, false);
    return *from;
  }
  void write(LaneId lane, double* to, double value) {
    streams.recording().access(lane, to, true);
    *to = value;
  }

  const TaskGraph& graph;
  int piece_tasks;
  NotedStreams streams;
  StreamReplay replay;
  StreamOrder order;
  HostMemory source;
  StreamMemory memory;
  std::vector<double> places;  ///< of an input and a target on their way, by place of the task
  std::vector<double> losses;  ///< by place of the task
};

class NotedStage : public StageModule {
 public:
  NotedStage(NotedDevice& device, Stage stage, double weight)
      : device_(device), stage_(stage), weight_(weight) {}

  Tensor initial_weights() const override { return device_.uploaded(stage_, weight_); }
  Tensor zero_gradient() const override { return device_.uploaded(stage_, 0); }

  Tensor forward(const Tensor& weights, const Tensor& input, Pass, std::unique_ptr<Tape>* tape,
                 Workspace&) override {
    const Tensor output = device_.taken();
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double* w, double* x, double* y) {
          d.write(lane, y, std::tanh(d.read(lane, w) * d.read(lane, x)));
        },
        device_.used(weights), device_.used(input), device_.used(output));
    if (tape != nullptr) *tape = std::make_unique<NotedTape>(input, output);
    return output;
  }
  Tensor backward(const Tensor& weights, const Tape& tape, const Tensor& gradient, double scale,
                  bool wants_input, Tensor& sums, Workspace& workspace) override {
    NotedTape part = static_cast<const NotedTape&>(tape);
    Tensor back = backward_input(weights, part, gradient, scale, wants_input, workspace);
    backward_weight(part, sums, workspace);
    return back;
  }
  Tensor backward_input(const Tensor& weights, Tape& tape, const Tensor& gradient, double scale,
                        bool wants_input, Workspace&) override {
    auto& kept = static_cast<NotedTape&>(tape);
    const Tensor error = device_.taken();
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double* a, double* g, double factor, double* e) {
          const double activation = d.read(lane, a);
          d.write(lane, e, factor * d.read(lane, g) * (1 - activation * activation));
        },
        device_.used(kept.output), device_.used(gradient), scale, device_.used(error));
    kept.output = error;
    if (!wants_input) return {};
    const Tensor back = device_.taken();
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double* e, double* w, double* out) {
          d.write(lane, out, d.read(lane, e) * d.read(lane, w));
        },
        device_.used(error), device_.used(weights), device_.used(back));
    return back;
  }
  void backward_weight(const Tape& tape, Tensor& sums, Workspace&) override {
    const auto& kept = static_cast<const NotedTape&>(tape);
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double* e, double* h, double* sum) {
          d.write(lane, sum, d.read(lane, sum) + d.read(lane, e) * d.read(lane, h));
        },
        device_.used(kept.output), device_.used(kept.input), device_.used(sums));
  }
  Loss loss(const Tensor&, const Tensor&, double, Tensor*, Workspace&) override { return {}; }
  void report_loss(const Tensor& output, const Tensor& target, double scale, Tensor* gradient,
                   Workspace&, std::function<void(const Loss&)> report) override {
    *gradient = device_.taken();
    double* slot =
        &device_.losses[static_cast<std::size_t>(device_.order.place(*device_.order.current()))];
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double* h, double* y, double share, double* g, double* l) {
          const double difference = d.read(lane, h) - d.read(lane, y);
          d.write(lane, g, difference * share);
          *l = 0.5 * difference * difference;
        },
        device_.used(output), device_.used(target), scale, device_.used(*gradient), slot);
    device_.order.then([slot, report = std::move(report)] {
      report({.loss = *slot, .correct = 0, .samples = 1});
    });
  }
  std::size_t optimizer_bytes() const override { return 0; }
  Tensor copy_of(const Tensor& weights) override {
    const Tensor copy = device_.taken();
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double* from, double* to) {
          d.write(lane, to, d.read(lane, from));
        },
        device_.used(weights), device_.used(copy));
    return copy;
  }
  void all_reduce(std::span<Tensor* const> tensors, double factor) override {
    for (Tensor* tensor : tensors.subspan(1)) {
      device_.launch(
          +[](NotedDevice& d, LaneId lane, double* more, double* sum) {
            d.write(lane, sum, d.read(lane, sum) + d.read(lane, more));
          },
          device_.used(*tensor), device_.used(*tensors.front()));
    }
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double share, double* sum) {
          d.write(lane, sum, d.read(lane, sum) * share);
        },
        factor, device_.used(*tensors.front()));
    for (Tensor* tensor : tensors.subspan(1)) {
      device_.launch(
          +[](NotedDevice& d, LaneId lane, double* from, double* to) {
            d.write(lane, to, d.read(lane, from));
          },
          device_.used(*tensors.front()), device_.used(*tensor));
    }
  }
  ParameterMath& math() override { fail("a noted stage has plain updates and sums alone"); }
  Tensor predicted(const Tensor& weights, int, double) override { return copy_of(weights); }
  void update(Tensor& weights, Tensor& gradient, double rate) override {
    device_.launch(
        +[](NotedDevice& d, LaneId lane, double step, double* w, double* g) {
          d.write(lane, w, d.read(lane, w) - step * d.read(lane, g));
          d.write(lane, g, 0);
        },
        rate, device_.used(weights), device_.used(gradient));
  }

 private:
  struct NotedTape : Tape {
    NotedTape(Tensor in, Tensor out) : input(std::move(in)), output(std::move(out)) {}
    std::size_t bytes() const override { return input.bytes() + output.bytes(); }
    Tensor input;
    Tensor output;  ///< between I and W the gradient of what went into the tanh
  };

  NotedDevice& device_;
  Stage stage_;
  double weight_;
};

class NotedFeed : public Feed {
 public:
  NotedFeed(NotedDevice& device, Feed& host) : device_(device), host_(host) {}
  Tensor input(MicroBatch i) override { return copied(host_.input(i), 0); }
  Tensor target(MicroBatch i) override { return copied(host_.target(i), 1); }
  Share share(MicroBatch i) const override { return host_.share(i); }

 private:
  Tensor copied(const Tensor& value, int which) {
    const int task = device_.order.place(*device_.order.current());
    double& place = device_.places[static_cast<std::size_t>(2 * task + which)];
    place = *value.data<double>();
    const Tensor tensor = device_.taken();
    device_.launch(
        +[](NotedDevice& d, LaneId lane, const double* from, double* to) {
          d.write(lane, to, *from);
        },
        &std::as_const(place), device_.used(tensor));
    return tensor;
  }
  NotedDevice& device_;
  Feed& host_;
};

}  // namespace unlatch::exec
