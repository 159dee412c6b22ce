// Chrome trace writer: prints the events of a view one by one.
#include "traces/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "schedules/error.h"
#include "traces/atomic_file.h"
#include "traces/json_text.h"
#include "traces/messages.h"
#include "traces/trace_view.h"

namespace unlatch {

namespace {

int process(Rank rank) { return rank.value + 1; }

/// Prints events into a buffer that goes to the stream whenever it is full.
class Writer {
 public:
  Writer(std::ostream& out, const TraceView& view) : out_(out), view_(view) {}
  void write();

 private:
  void head();
  void metadata(Rank rank);
  void metadata(int process, int thread, std::string_view what, std::string_view args);
  void tasks();
  void task(TaskId id);
  void check_lane(TaskId id);
  void arrow(TaskId from, TaskId to);
  void counters(Rank rank);
  void begin_event();
  void flush();

  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
  }

  std::ostream& out_;
  const TraceView& view_;
  fmt::memory_buffer buffer_;
  bool first_event_ = true;
  std::vector<TaskId> last_of_lane_;
  std::int64_t arrows_ = 0;
};

void Writer::write() {
  head();
  for (const Rank rank : up_to<Rank>(view_.graph().ranks())) {
    if (view_.shows(rank)) metadata(rank);
  }
  tasks();
  for (const Rank rank : up_to<Rank>(view_.graph().ranks())) counters(rank);
  print("\n]}}\n");
  flush();
}

void Writer::flush() {
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
  require(out_.good(), "cannot write the trace: the output stream failed");
}

void Writer::begin_event() {
  constexpr std::size_t full = std::size_t{1} << 16;
  if (buffer_.size() > full) flush();
  print("{}", first_event_ ? "\n" : ",\n");
  first_event_ = false;
}

void Writer::head() {
  print(R"({{"displayTimeUnit":"ms","metadata":{{"schedule":{},"stage_names":[)",
        json_string(view_.graph().schedule()));
  std::string_view separator;
  for (const std::string& stage_name : view_.options().stage_names) {
    print("{}{}", separator, json_string(stage_name));
    separator = ",";
  }
  print(R"(]}},"traceEvents":[)");
}

void Writer::metadata(int process, int thread, std::string_view what, std::string_view args) {
  begin_event();
  print(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{{}}}}})", what, process, thread, args);
}

void Writer::metadata(Rank rank) {
  const int pid = process(rank);
  // Thread 1 exists; 0 would make viewers invent another one.
  metadata(pid, 1, "process_name", fmt::format(R"("name":"rank {}")", rank.value));
  metadata(pid, 1, "process_sort_index", fmt::format(R"("sort_index":{})", rank.value));
  for (const LaneId lane : up_to<LaneId>(static_cast<int>(view_.graph().lanes().size()))) {
    const int tid = view_.thread(lane);
    if (tid == 0 || view_.graph().lanes()[lane.value].rank != rank) continue;
    metadata(pid, tid, "thread_name", fmt::format(R"("name":"{}")", view_.thread_name(lane)));
    metadata(pid, tid, "thread_sort_index", fmt::format(R"("sort_index":{})", tid));
  }
}

void Writer::tasks() {
  last_of_lane_.assign(view_.graph().lanes().size(), TaskId{-1});
  const Messages messages(view_.graph());
  for (const TaskId id : view_.tasks()) {
    task(id);
    const TaskId from = messages.source(id);
    if (from != TaskId{-1} && view_.shows(from)) arrow(from, id);
  }
}

void Writer::check_lane(TaskId id) {
  TaskId& last = last_of_lane_[view_.graph().task(id).lane];
  if (last != TaskId{-1}) {
    const Span& earlier = view_.timeline()[last];
    const Span& later = view_.timeline()[id];
    require(earlier.end <= later.start,
            "trace: {} starts at {} ms while {} runs on the same lane until {} ms; a lane runs one "
            "task at a time, so this timeline is wrong",
            label(view_.graph().task(id)), ms_text(later.start), label(view_.graph().task(last)),
            ms_text(earlier.end));
  }
  last = id;
}

void Writer::task(TaskId id) {
  check_lane(id);
  const TaskGraph& graph = view_.graph();
  const Task& task = graph.task(id);
  const Span& span = view_.timeline()[id];
  require(span.length() >= nanoseconds(0), "trace: {} ends before it starts", label(task));
  begin_event();
  print(R"({{"name":"{}","cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},)", label(task),
        letter(task.op), process(graph.rank(task)), view_.thread(task.lane_id()),
        us_text(span.start), us_text(span.length()));
  print(R"("args":{{"stage":{},"batch":{})", task.stage.value, batch_of(graph, task));
  if (task.op != Op::update) print(R"(,"microbatch":{})", task.micro_batch.value);
  if (is_compute(task.op)) print(R"(,"reads_version":{})", task.version);
  if (task.op == Op::update) print(R"(,"writes_version":{})", task.version + 1);
  print("}}}}");
}

void Writer::arrow(TaskId from, TaskId to) {
  const TaskGraph& graph = view_.graph();
  const Span& sender = view_.timeline()[from];
  const Span& receiver = view_.timeline()[to];
  const nanoseconds margin(1);
  const nanoseconds leaves = std::max(sender.start, sender.end - margin);
  const nanoseconds arrives =
      std::min(receiver.start + margin, std::max(receiver.start, receiver.end - margin));
  require(leaves <= arrives, "trace: {} starts before {}, whose result it uses, has ended",
          label(graph.task(to)), label(graph.task(from)));
  ++arrows_;
  const std::string_view what = graph.task(to).op == Op::forward ? "activation" : "gradient";
  const auto end = [&](TaskId id, nanoseconds at, std::string_view phase) {
    const Task& task = graph.task(id);
    begin_event();
    print(R"({{"name":"{0}","cat":"{0}",{1},"id":{2},"pid":{3},"tid":{4},"ts":{5}}})", what, phase,
          arrows_, process(graph.rank(task)), view_.thread(task.lane_id()), us_text(at));
  };
  end(from, leaves, R"("ph":"s")");
  end(to, arrives, R"("ph":"f","bp":"e")");
}

void Writer::counters(Rank rank) {
  const bool bytes = view_.counts_bytes();
  for (const MemoryLevel& level : view_.samples(rank)) {
    begin_event();
    print(R"({{"name":"{} of rank {}","ph":"C","pid":{},"ts":{},"args":{{"value":{}}}}})",
          bytes ? "memory" : "tapes", rank.value, process(rank), us_text(level.at),
          bytes ? level.bytes : level.activations);
  }
}

}  // namespace

void write_chrome_trace(std::ostream& out, const TaskGraph& graph, const Timeline& timeline,
                        const ChromeTraceOptions& options) {
  Writer(out, TraceView(graph, timeline, options)).write();
}

void write_chrome_trace(const std::string& path, const TaskGraph& graph, const Timeline& timeline,
                        const ChromeTraceOptions& options) {
  AtomicFile file(path);
  write_chrome_trace(file, graph, timeline, options);
  file.commit();
}

TraceSize chrome_trace_size(const TaskGraph& graph, const Timeline& timeline,
                            const ChromeTraceOptions& options) {
  const TraceView view(graph, timeline, options);
  std::int64_t spans = 0;
  std::int64_t arrows = 0;
  std::int64_t names = 0;
  std::int64_t samples = 0;
  const Messages messages(graph);
  for (const TaskId id : graph.ids()) {
    if (!view.shows(id)) continue;
    ++spans;
    const TaskId from = messages.source(id);
    if (from != TaskId{-1} && view.shows(from)) ++arrows;
  }
  for (const Rank rank : up_to<Rank>(graph.ranks())) {
    if (view.shows(rank)) names += 2;
    samples += static_cast<std::int64_t>(view.samples(rank).size());
  }
  for (const LaneId lane : up_to<LaneId>(static_cast<int>(graph.lanes().size()))) {
    if (view.thread(lane) != 0) names += 2;
  }
  // Typical lengths of the lines above, of runs of some milliseconds.
  constexpr std::int64_t span_bytes = 145;
  constexpr std::int64_t arrow_bytes = 190;
  constexpr std::int64_t name_bytes = 80;
  constexpr std::int64_t sample_bytes = 80;
  return {spans + 2 * arrows + names + samples,
          spans * span_bytes + arrows * arrow_bytes + names * name_bytes + samples * sample_bytes};
}

}  // namespace unlatch
