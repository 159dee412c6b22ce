#include "exec/cuda_feed.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace unlatch::exec::cuda {
namespace {

constexpr std::size_t alignment = 256;

bool takes_input(const TaskGraph& graph, const Task& task) {
  return task.op == unlatch::Op::forward && graph.shape().is_first(task.stage);
}

bool takes_target(const TaskGraph& graph, const Task& task) {
  const bool is_last = graph.shape().is_last(task.stage);
  if (task.op == unlatch::Op::forward) return is_last;
  const bool uses_head = task.op == unlatch::Op::backward ||
                         task.op == unlatch::Op::backward_input ||
                         task.op == unlatch::Op::pop_backward;
  return uses_head && graph.learning().local_gradients.see_targets() && !is_last;
}

/// Places for what such tasks copy.
std::size_t places(const TaskGraph& graph, bool graphs,
                   bool (*takes)(const TaskGraph&, const Task&)) {
  const auto count = [&](int first, int n) {
    const auto tasks =
        graph.tasks().subspan(static_cast<std::size_t>(first),
                              static_cast<std::size_t>(std::min(n, graph.size() - first)));
    return static_cast<std::size_t>(
        std::ranges::count_if(tasks, [&](const Task& task) { return takes(graph, task); }));
  };
  if (graphs)
    return 2 * std::max<std::size_t>(count(graph.size() / 4, tasks_that_repeat(graph)), 1);
  constexpr std::size_t least = 32;
  const std::size_t all = count(0, graph.size());
  const auto steps = static_cast<std::size_t>(graph.shape().batches);
  const std::size_t of_two_steps = 2 * ((all + steps - 1) / steps);
  return std::clamp<std::size_t>(std::max(of_two_steps, least), 2, std::max<std::size_t>(all, 2));
}

std::size_t most_bytes(bool graphs) {
  return graphs ? std::numeric_limits<std::size_t>::max() : std::size_t{512} << 20;
}

}  // namespace

CudaFeed::CudaFeed(Device& device, Feed& host, const TaskGraph& graph)
    : device_(device),
      host_(host),
      inputs_(places(graph, device.settings().graphs, takes_input),
              most_bytes(device.settings().graphs)),
      targets_(places(graph, device.settings().graphs, takes_target),
               most_bytes(device.settings().graphs)) {}

Tensor CudaFeed::input(MicroBatch i) {
  const Tensor floats = copied(host_.input(i), inputs_);
  const Precision precision = device_.settings().precision;
  if (is_float32(precision)) return floats;
  const std::size_t n = floats.bytes() / sizeof(float);
  Tensor result = device_.take(n * bytes_of(precision));
  device_.launch(launch_convert, precision, device_.read(floats), device_.write<void>(result), n);
  return result;
}

Tensor CudaFeed::copied(const Tensor& values, Places& places) {
  void* place = places.next(values.bytes(), device_.order());
  std::memcpy(place, values.data<std::byte>(), values.bytes());
  Tensor tensor = device_.take(values.bytes());
  device_.call("cudaMemcpyAsync", cudaMemcpyAsync, device_.write<void>(tensor), place,
               values.bytes(), cudaMemcpyHostToDevice, device_.stream());
  return tensor;
}

// ---- places ------------------------------------------------------------------------------------

CudaFeed::Places::~Places() {
  if (!gave_up()) cudaFreeHost(memory_);
}

void* CudaFeed::Places::next(std::size_t bytes, StreamOrder& order) {
  if (bytes > bytes_) allocate(bytes, order);
  const std::size_t place = next_;
  next_ = (next_ + 1) % users_.size();
  TaskId& user = users_[place];
  if (user.value >= 0 && user != order.current()) order.wait_until_over(user);
  user = *order.current();
  return static_cast<std::byte*>(memory_) + place * bytes_;
}

void CudaFeed::Places::allocate(std::size_t bytes, StreamOrder& order) {
  for (const TaskId user : users_) {
    if (user.value >= 0 && user != order.current()) order.wait_until_over(user);
  }
  cudaFreeHost(std::exchange(memory_, nullptr));
  bytes_ = (bytes + alignment - 1) / alignment * alignment;
  const std::size_t n = std::min(wanted_, std::max<std::size_t>(most_ / bytes_, 2));
  check(cudaMallocHost(&memory_, n * bytes_), "cudaMallocHost");
  users_.assign(n, TaskId{-1});
  next_ = 0;
}

}  // namespace unlatch::exec::cuda
