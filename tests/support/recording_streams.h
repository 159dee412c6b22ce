// RecordingStreams: what a device would be told, with a vector clock a lane, so that a missing wait
// is found whatever the timing.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "exec/stream_order.h"

namespace unlatch::testing_support {

/// Position k of lane L happens before what runs at a moment whose clock has more than k for L.
class RecordingStreams : public exec::Streams {
 public:
  using Clock = std::vector<int>;

  explicit RecordingStreams(const TaskGraph& graph)
      : lanes_(graph.lanes().size(), Clock(graph.lanes().size(), 0)),
        host_(graph.lanes().size(), 0) {}

  void record(int mark, LaneId lane) override {
    Clock& clock = step(lane);
    marks_[mark] = clock;
    if (mark % 2 == 0) {
      begun_.push_back({mark, lane, clock, -1});
    } else {
      begun_.back().end = clock[lane.value];
    }
  }

  void wait(LaneId lane, int mark) override {
    ++waits_;
    if (waits_ == forgotten_wait_) return;
    join(lanes_[lane.value], marks_.at(mark));
  }

  /// What comes on any lane later starts behind all that is on any lane now.
  void join_lanes() {
    Clock all = lanes_.front();
    for (const Clock& clock : lanes_) join(all, clock);
    for (Clock& clock : lanes_) join(clock, all);
  }

  /// A clock that says only what came before what.
  nanoseconds reached(int mark) override {
    const Clock& clock = marks_.at(mark);
    join(host_, clock);
    return nanoseconds(*std::ranges::max_element(clock));
  }

  /// The task at hand reads or writes memory. Notes a fault where it is not ordered behind what it
  /// conflicts with, by whichever tensor had that memory then.
  void access(LaneId lane, const void* memory, bool writes) {
    const Clock& clock = step(lane);
    Memory& m = memory_[memory];
    const auto check = [&](const Place& before, const char* what) {
      if (before.lane != lane && clock[before.lane.value] < before.position) {
        faults_.push_back(fmt::format("lane {} {} what lane {} {}", lane.value,
                                      writes ? "overwrites" : "reads", before.lane.value, what));
      }
    };
    if (m.written) check(*m.written, "wrote");
    if (writes) {
      for (const Place& read : m.reads) check(read, "reads");
      m.reads.clear();
      m.written = Place{lane, clock[lane.value]};
    } else {
      m.reads.push_back({lane, clock[lane.value]});
    }
  }

  /// Leaves out one wait, so that a test can see it missed.
  void forget_wait(int number) { forgotten_wait_ = number; }
  int waits() const { return waits_; }
  const std::vector<std::string>& faults() const { return faults_; }

  /// Edges whose later task does not start behind the end (beside: the start) of the earlier one.
  std::vector<std::string> broken_edges(const TaskGraph& graph) const {
    std::vector<std::string> broken;
    for (const TaskId id : graph.ids()) {
      const Begun& to = begun_.at(static_cast<std::size_t>(id.value));
      for (const Edge edge : graph.edges_into(id)) {
        const Begun& from = begun_.at(static_cast<std::size_t>(edge.from().value));
        const int place = edge.kind() == EdgeKind::beside ? from.clock[from.lane.value] : from.end;
        if (to.clock[from.lane.value] >= place) continue;
        broken.push_back(fmt::format("{} does not wait for {}", label(graph.task(id)),
                                     label(graph.task(edge.from()))));
      }
    }
    return broken;
  }

  /// Tasks of each lane in the order they were put there, by their marks; for an order whose window
  /// holds the whole graph, so that no two tasks share a mark.
  std::vector<std::vector<TaskId>> tasks_by_lane() const {
    std::vector<std::vector<TaskId>> lanes(lanes_.size());
    for (const Begun& task : begun_) lanes[task.lane.value].push_back(TaskId{task.mark / 2});
    return lanes;
  }

 private:
  struct Place {
    LaneId lane;
    int position;
  };
  struct Memory {
    std::optional<Place> written;
    std::vector<Place> reads;
  };
  struct Begun {
    int mark;
    LaneId lane;
    Clock clock;
    int end;
  };

  static void join(Clock& into, const Clock& other) {
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
  }
  /// The next place on a lane, behind all that the host knows to be over.
  Clock& step(LaneId lane) {
    Clock& clock = lanes_[lane.value];
    join(clock, host_);
    ++clock[lane.value];
    return clock;
  }

  std::vector<Clock> lanes_;
  Clock host_;
  std::map<int, Clock> marks_;
  std::map<const void*, Memory> memory_;
  std::vector<Begun> begun_;
  std::vector<std::string> faults_;
  int waits_ = 0;
  int forgotten_wait_ = 0;
};

}  // namespace unlatch::testing_support
