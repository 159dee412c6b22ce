// FakeDeviceLibrary: a device that is none. The CPU's stages compute, and a clock that is asked for
// each task says how long it took.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/device_library.h"
#include "exec/dnn_heads.h"

namespace unlatch::testing_support {

/// What a task takes.
using TaskTime = std::function<nanoseconds(const TaskGraph& graph, const Task& task)>;

/// Lanes go on side by side; a wait holds one back. Tasks begin in the order of the graph.
class ClockedStreams : public exec::Streams {
 public:
  ClockedStreams(const TaskGraph& graph, TaskTime time)
      : graph_(graph), time_(std::move(time)), lanes_(graph.lanes().size()) {}

  void record(int mark, LaneId lane) override {
    nanoseconds& now = lanes_[lane.value];
    const bool ends = mark % 2 != 0;
    if (ends) now += time_(graph_, graph_.task(TaskId{ended_++}));
    marks_[mark] = now;
  }
  void wait(LaneId lane, int mark) override {
    lanes_[lane.value] = std::max(lanes_[lane.value], marks_.at(mark));
  }
  nanoseconds reached(int mark) override { return marks_.at(mark); }

 private:
  const TaskGraph& graph_;
  TaskTime time_;
  std::vector<nanoseconds> lanes_;
  std::map<int, nanoseconds> marks_;
  int ended_ = 0;
};

class FakeDeviceRun : public exec::DeviceRun {
 public:
  FakeDeviceRun(const TaskGraph& graph, const models::Model& model,
                std::span<const models::StageRange> ranges, const exec::DnnRun& run,
                exec::Feed& feed, TaskTime time)
      : streams_(graph, std::move(time)), order_(graph, streams_), feed_(feed) {
    for (int copy = 0; copy < graph.shape().copies; ++copy) {
      auto stages = exec::make_dnn_stages(model, ranges, run);
      auto heads = exec::make_dnn_heads(graph.learning().local_gradients, stages, run);
      std::ranges::move(stages, std::back_inserter(stages_));
      std::ranges::move(heads, std::back_inserter(heads_));
    }
    a_copy_ = ranges.size();
  }

  exec::StreamOrder& order() override { return order_; }
  std::vector<exec::StageModule*> modules() override {
    std::vector<exec::StageModule*> modules;
    for (const auto& stage : stages_) modules.push_back(stage.get());
    return modules;
  }
  std::vector<exec::LocalHead*> heads() override {
    std::vector<exec::LocalHead*> heads;
    for (const auto& head : heads_) heads.push_back(head.get());
    return heads;
  }
  exec::Feed& feed() override { return feed_; }
  std::vector<float> to_host(const exec::Tensor& tensor) override {
    const auto values = tensor.as<float>();
    return {values.begin(), values.end()};
  }
  std::vector<std::string> remarks() override { return {}; }
  exec::StreamMemory::Use memory_of(Rank) const override { return {}; }
  std::vector<float> statistics() override {
    std::vector<float> all;
    for (std::size_t k = 0; k < a_copy_; ++k) {
      const auto part = stages_[k]->statistics();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

 private:
  ClockedStreams streams_;
  exec::StreamOrder order_;
  exec::Feed& feed_;
  std::vector<std::unique_ptr<exec::DnnStageModule>> stages_;
  std::vector<std::unique_ptr<exec::LocalHead>> heads_;
  std::size_t a_copy_ = 0;
};

class FakeDeviceLibrary : public exec::DeviceLibrary {
 public:
  explicit FakeDeviceLibrary(TaskTime time) : time_(std::move(time)) {}

  std::string versions() const override { return "no CUDA at all"; }
  std::vector<std::string> devices(std::string*) const override { return {"Fake GPU", "Fake GPU"}; }
  std::unique_ptr<exec::DeviceRun> start(const TaskGraph& graph, const models::Model& model,
                                         std::span<const models::StageRange> ranges,
                                         const exec::DnnRun& run, const exec::DeviceSettings&,
                                         exec::Feed& feed) const override {
    return std::make_unique<FakeDeviceRun>(graph, model, ranges, run, feed, time_);
  }

 private:
  TaskTime time_;
};

}  // namespace unlatch::testing_support
