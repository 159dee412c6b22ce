// What the executor costs on a GPU: busy kernels in the order of a schedule, run by the executor,
// put on bare streams, and replayed as a CUDA graph of the whole run. Without a device it says so
// and exits with 77.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "exec/cuda_streams.h"
#include "exec/executor.h"
#include "exec/stream_backend.h"
#include "schedules/error.h"
#include "schedules/registry.h"
#include "sim/simulator.h"
#include "tests/bench/bare_streams.h"
#include "tests/bench/cuda_busy.h"

namespace unlatch::bench {
namespace {

using Json = nlohmann::json;
constexpr int exit_skipped = 77;

struct Options {
  int device = 0;
  int rounds = 5;
  int tasks = 1000;    ///< about as many a rank
  double seconds = 0;  ///< after which nothing more is begun; 0: all is measured
  std::vector<double> us = {0, 5, 20, 100};
  std::string json;
};

/// Every launched task takes the same time, and nothing else does.
class EqualTasks : public sim::CostModel {
 public:
  explicit EqualTasks(nanoseconds task) : task_(task) {}
  nanoseconds duration(const Task& task) const override {
    return is_launched(task) ? task_ : nanoseconds(0);
  }

 private:
  nanoseconds task_;
};

/// Puts the busy kernel on the lane of the task.
class BusyRunner : public exec::TaskRunner {
 public:
  BusyRunner(const exec::cuda::CudaStreams& streams, long long clocks, HostTime& time)
      : streams_(streams), clocks_(clocks), time_(time) {}
  void run(const Task& task, exec::Workspace&) override {
    time_.task();
    launch_busy(streams_.stream(task.lane_id()), clocks_);
  }

 private:
  const exec::cuda::CudaStreams& streams_;
  long long clocks_;
  HostTime& time_;
};

/// Tells when the last task has been put on its stream.
class TimedBackend : public exec::StreamBackend {
 public:
  TimedBackend(const TaskGraph& graph, exec::StreamOrder& order, exec::TaskRunner& runner,
               HostTime& time)
      : StreamBackend(graph, order, runner), time_(time) {}
  Timeline synchronize() override {
    time_.stop();
    return StreamBackend::synchronize();
  }

 private:
  HostTime& time_;
};

/// Far fewer tasks ahead of the device than usual, so that the host also does what it does in a
/// long run: read the times of old tasks and use their events again.
RunTime run_by_executor(const TaskGraph& graph, int number, long long clocks) {
  constexpr int window = HostTime::first_tasks;
  exec::cuda::CudaStreams streams(graph, std::vector<int>(graph.lanes().size(), number),
                                  {.window = window});
  exec::StreamOrder order(graph, streams, window);
  HostTime time;
  BusyRunner runner(streams, clocks, time);
  TimedBackend backend(graph, order, runner, time);
  const Timeline timeline = exec::run(graph, backend);
  const auto first = std::ranges::min(timeline.spans, {}, &Span::start).start;
  const std::chrono::duration<double, std::micro> taken = makespan(timeline) - first;
  return {taken.count(), time.us_a_task()};
}

/// Clocks of a busy kernel a microsecond, once the device has woken up.
double clocks_a_us() {
  using exec::cuda::check;
  constexpr long long clocks = 50'000'000;
  constexpr double us_a_ms = 1000;
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  launch_busy(nullptr, 4 * clocks);
  check(cudaEventRecord(begin, nullptr), "cudaEventRecord");
  launch_busy(nullptr, clocks);
  check(cudaEventRecord(end, nullptr), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return static_cast<double>(clocks) / (static_cast<double>(ms) * us_a_ms);
}

/// The schedule with so many batches that each rank has about the tasks asked for.
TaskGraph graph_of(const std::string& schedule, int ranks, int tasks) {
  constexpr int micro_batches = 4;
  const auto make = [&](int batches) {
    return ScheduleSpec::parse(schedule)
        .make({.stages = ranks, .micro_batches = micro_batches, .batches = batches})
        .build();
  };
  constexpr int probe = 20;
  const TaskGraph small = make(probe);
  const auto launched = std::ranges::count_if(small.tasks(), is_launched);
  return make(std::max(1, static_cast<int>(tasks * ranks * probe / launched)));
}

struct Way {
  std::vector<double> device_us, host_us_a_task;  ///< of each round
  void add(const RunTime& time) {
    device_us.push_back(time.device_us);
    host_us_a_task.push_back(time.host_us_a_task);
  }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

Json to_json(const Way& way, double ideal_us) {
  const double device_us = median(way.device_us);
  Json json{{"device_us", device_us}, {"host_us_a_task", median(way.host_us_a_task)}};
  json["over_ideal"] = ideal_us > 0 ? Json(device_us / ideal_us) : Json();
  return json;
}

Json measure(const std::string& schedule, int ranks, double us, double clocks_a_us,
             const Options& options) {
  const TaskGraph graph = graph_of(schedule, ranks, options.tasks);
  const auto clocks = static_cast<long long>(us * clocks_a_us);
  const nanoseconds task(static_cast<std::int64_t>(us * 1000));
  const double ideal_us =
      static_cast<double>(makespan(sim::run(graph, EqualTasks(task))).count()) / 1000;
  const auto launched = std::ranges::count_if(graph.tasks(), is_launched);
  BareStreams bare(graph, clocks);
  Way executor, launches, replays;
  for (int round = 0; round < options.rounds; ++round) {
    executor.add(run_by_executor(graph, options.device, clocks));
    launches.add(bare.run());
    replays.add(bare.replay());
  }
  const double device_us = median(executor.device_us);
  return {{"schedule", schedule},
          {"ranks", ranks},
          {"task_us", us},
          {"batches", graph.shape().batches},
          {"tasks", launched},
          {"ideal_us", ideal_us},
          {"executor", to_json(executor, ideal_us)},
          {"bare", to_json(launches, ideal_us)},
          {"graph", to_json(replays, ideal_us)},
          {"graph_capture_ms", bare.capture_ms()},
          {"executor_over_bare", device_us / median(launches.device_us)},
          {"executor_over_graph", device_us / median(replays.device_us)}};
}

std::string row_text(const Json& row) {
  const double tasks = row["tasks"];
  std::string text = fmt::format("{:8} {:5} {:7.0f} {:6.0f}", row["schedule"].get<std::string>(),
                                 row["ranks"].get<int>(), row["task_us"].get<double>(), tasks);
  for (const char* way : {"executor", "bare", "graph"}) {
    const Json& found = row[way];
    const std::string over = found["over_ideal"].is_null()
                                 ? "-"
                                 : fmt::format("{:.3f}", found["over_ideal"].get<double>());
    text += fmt::format(" | {:>7} {:7.3f} {:6.3f}", over, found["device_us"].get<double>() / tasks,
                        found["host_us_a_task"].get<double>());
  }
  return text + fmt::format(" | {:6.3f} {:6.3f}", row["executor_over_bare"].get<double>(),
                            row["executor_over_graph"].get<double>());
}

constexpr const char* heading =
    "device: microseconds a task on the device; host: to enqueue it; over: device time over the "
    "ideal.\nA host that is ahead waits where a stream's queue is full. Graph: the whole run, "
    "captured once.\n\n"
    "                              | executor               | bare streams           | graph"
    "                  | executor over\n"
    "schedule ranks task us  tasks |    over  device   host |    over  device   host |    over  "
    "device   host |   bare  graph";

int run(const Options& options) {
  int count = 0;  // left alone when the call fails
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (count == 0) {
    fmt::print("skipped: no CUDA device: {}\n",
               status == cudaSuccess ? "CUDA counts 0 devices" : cudaGetErrorString(status));
    return exit_skipped;
  }
  require(options.device < count, "there is no device {}; CUDA counts {}", options.device, count);
  const auto begin = std::chrono::steady_clock::now();
  exec::cuda::check(cudaSetDevice(options.device), "cudaSetDevice");
  cudaDeviceProp properties;
  exec::cuda::check(cudaGetDeviceProperties(&properties, options.device),
                    "cudaGetDeviceProperties");
  const double clocks = clocks_a_us();
  fmt::print("{}, {:.0f} clocks a microsecond, medians of {} rounds\n{}\n", properties.name, clocks,
             options.rounds, heading);
  Json rows = Json::array();
  int left_out = 0;
  for (const double us : options.us) {
    for (const int ranks : {1, 2, 4}) {
      for (const char* schedule : {"bp", "gpipe", "1f1b", "fdg", "dsp"}) {
        const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - begin;
        if (options.seconds > 0 && gone.count() > options.seconds) {
          ++left_out;
          continue;
        }
        rows.push_back(measure(schedule, ranks, us, clocks, options));
        fmt::print("{}\n", row_text(rows.back()));
        std::fflush(stdout);
      }
    }
  }
  if (left_out > 0) fmt::print("{} cases had no time\n", left_out);
  if (!options.json.empty()) {
    const Json all{{"device", properties.name}, {"clocks_a_us", clocks},
                   {"rounds", options.rounds},  {"graph", "the whole run, captured once"},
                   {"rows", std::move(rows)},   {"left_out", left_out}};
    std::ofstream file(options.json);
    file << all.dump(1) << "\n";
    require(!file.flush().fail(), "cannot write '{}'", options.json);
  }
  return 0;
}

}  // namespace
}  // namespace unlatch::bench

int main(int argc, char** argv) {
  unlatch::bench::Options options;
  CLI::App app("What the executor costs on a GPU, against bare streams and a CUDA graph");
  app.add_option("--device", options.device, "As CUDA counts them")->check(CLI::Range(0, 63));
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 100));
  app.add_option("--tasks", options.tasks, "A rank")->check(CLI::Range(200, 100000));
  app.add_option("--seconds", options.seconds, "Nothing is begun after that; 0: all is measured");
  app.add_option("--us", options.us, "Length of a task")
      ->delimiter(',')
      ->check(CLI::Range(0, 10000));
  app.add_option("--json", options.json, "Write the results there");
  CLI11_PARSE(app, argc, argv);
  try {
    return unlatch::bench::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
