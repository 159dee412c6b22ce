#include "exec/cuda_device.h"

#include <utility>

#include "exec/cuda_peers.h"
#include "schedules/error.h"

namespace unlatch::exec::cuda {
namespace {

constexpr std::size_t blas_workspace = std::size_t{32} << 20;  // what cuBLAS advises for Hopper

bool computes(Engine engine) { return engine == Engine::compute || engine == Engine::recompute; }

}  // namespace

/// With graphs the window is two pieces, so that the host fills one while the device works on the
/// other.
Device::Device(const TaskGraph& graph, const DeviceSettings& settings)
    : graph_(graph),
      settings_(settings),
      piece_tasks_(settings.graphs ? tasks_that_repeat(graph) : 0),
      window_(settings.graphs ? 2 * piece_tasks_ : StreamOrder::usual_window),
      streams_(graph, device_of_each_lane(),
               {.window = window_,
                .graphs = settings.graphs,
                .timeout = settings.timeout,
                .watch = [this](bool too_late) { watch(too_late); }}),
      replay_(settings.graphs ? std::make_unique<StreamReplay>(streams_, piece_tasks_) : nullptr),
      order_(graph, replay_ ? static_cast<Streams&>(*replay_) : streams_, window_),
      memory_(graph, order_, *this, settings.memory_limit),
      handles_(graph.lanes().size()) {
  streams_.name_tasks_of(order_);
  open_peers(settings.devices);
  if (settings.nccl) nccl_ = std::make_unique<NcclTransport>(routes());
  streams_.select_none();
  for (std::size_t l = 0; l < handles_.size(); ++l) {
    if (!computes(graph.lanes()[l].engine)) continue;
    const LaneId lane{static_cast<int>(l)};
    const Rank rank = graph.lanes()[l].rank;
    Tensor workspace = memory_.reserve(rank, blas_workspace, "cuBLAS's workspace");
    streams_.select(streams_.device(lane));
    try {
      handles_[l] = handles_on(streams_.stream(lane), std::move(workspace));
    } catch (const RunError& error) {
      throw RunError(fmt::format("rank {}: {}", rank.value, error.what()));
    }
    any_dnn_ = handles_[l].dnn.get();
  }
}

Device::~Device() {
  wait_until_idle();  // after a failure work may still be on its way
}

void Device::Destroy::operator()(cudnnHandle_t dnn) const noexcept {
  if (!gave_up()) cudnnDestroy(dnn);
}
void Device::Destroy::operator()(cublasHandle_t blas) const noexcept {
  if (!gave_up()) cublasDestroy(blas);
}

int Device::device_of(Rank rank) const {
  const std::vector<int>& numbers = settings_.devices;
  return numbers.size() == 1 ? numbers.front() : numbers[static_cast<std::size_t>(rank.value)];
}

std::vector<int> Device::device_of_each_lane() const {
  std::vector<int> devices;
  for (const Lane& lane : graph_.lanes()) devices.push_back(device_of(lane.rank));
  return devices;
}

Rank Device::rank_at_hand() const { return graph_.rank(graph_.task(*order_.current())); }

void Device::finish() {
  if (replay_) replay_->end_piece();
  streams_.finish();
}

/// Between neighbouring stages, from the last one to all others where they wait for its error, and
/// among the copies of a stage: all at once where each has its own device, from one to another
/// where their gradients are compressed or meet in a server's weights.
NcclRoutes Device::routes() const {
  NcclRoutes routes;
  const Shape& shape = graph_.shape();
  const auto device_of_stage = [&](Stage k) { return device_of(graph_.rank_of(k)); };
  const bool has_feedback = graph_.learning().local_gradients.source == GradientSource::feedback;
  for (const Stage k : up_to<Stage>(shape.stages)) {
    if (shape.is_last(k)) continue;
    const int here = device_of_stage(k);
    const int next = device_of_stage(Stage{k.value + 1});
    if (here != next) routes.pairs.insert({{here, next}, {next, here}});
    const int last = device_of_stage(shape.last_of(k));
    if (has_feedback && here != last) routes.pairs.insert({last, here});
  }
  for (const Stage k : up_to<Stage>(shape.stages_a_copy())) {
    std::vector<int> devices;
    for (int copy = 0; copy < shape.copies; ++copy) {
      devices.push_back(device_of_stage(Stage{copy * shape.stages_a_copy() + k.value}));
    }
    const std::set<int> different(devices.begin(), devices.end());
    for (const int from : different) {
      if (graph_.learning().agreement.is_dense_all_reduce()) break;
      for (const int to : different) {
        if (from != to) routes.pairs.insert({from, to});
      }
    }
    if (devices.size() > 1 && different.size() == devices.size()) routes.groups.insert(devices);
  }
  return routes;
}

void Device::watch(bool too_late) const {
  if (!nccl_) return;
  nccl_->check();
  if (too_late) nccl_->abort();
}

/// A workspace of fixed size for each handle: cuBLAS then gives the same bits every time, and takes
/// no memory of its own while a graph is captured. It counts as the rank's.
Device::Handles Device::handles_on(StreamHandle stream, Tensor workspace) const {
  Handles handles;
  handles.blas_workspace = std::move(workspace);
  cudnnHandle_t dnn = nullptr;
  check(cudnnCreate(&dnn), "cudnnCreate");
  handles.dnn.reset(dnn);
  check(cudnnSetStream(dnn, stream), "cudnnSetStream");
  cublasHandle_t blas = nullptr;
  check(cublasCreate(&blas), "cublasCreate");
  handles.blas.reset(blas);
  check(cublasSetStream(blas, stream), "cublasSetStream");
  check(cublasSetWorkspace(blas, handles.blas_workspace.data<void>(), blas_workspace),
        "cublasSetWorkspace");
  const unsigned mode =
      settings_.precision == Precision::tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;
  check(cublasSetMathMode(blas, static_cast<cublasMath_t>(
                                    mode | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
        "cublasSetMathMode");
  return handles;
}

// ---- memory ------------------------------------------------------------------------------------

std::byte* Device::allocate(Rank rank, std::size_t bytes) {
  streams_.select(device_of(rank));  // that of the task at hand, if there is one
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the pool says what was asked for
    return nullptr;
  }
  check(status, "cudaMalloc");
  return static_cast<std::byte*>(memory);
}

void Device::release(Rank, std::byte* memory) noexcept {
  if (!gave_up()) cudaFree(memory);
}

std::optional<DeviceMemory::Room> Device::room(Rank rank) {
  streams_.select(device_of(rank));
  Room room;
  check(cudaMemGetInfo(&room.free, &room.total), "cudaMemGetInfo");
  return room;
}

Tensor Device::take(std::size_t bytes) { return memory_.take(rank_at_hand(), bytes); }

Tensor Device::brought(Tensor tensor) {
  if (tensor.empty() || memory_.device_of(tensor) == device_of(rank_at_hand())) return tensor;
  return copy_of(tensor);
}

Tensor Device::copy_of(const Tensor& tensor) {
  Tensor copy = take(tensor.bytes());
  copy_into(copy, tensor);
  return copy;
}

/// NCCL's receiver is the lane at hand. Without NCCL an address tells CUDA its device.
void Device::copy_into(const Tensor& to, const Tensor& from) {
  if (from.empty()) return;  // layers without parameters
  const NcclTransport::Place target{write<void>(to), memory_.device_of(to)};
  const NcclTransport::Place source{write<void>(from), memory_.device_of(from)};
  const bool receives = target.device == streams_.device(order_.lane());
  if (nccl_ && receives && nccl_->goes(source.device, target.device)) {
    put([=, this, bytes = from.bytes(),
         lane = stream()] { nccl_->copy(target, source, bytes, lane); },
        &NcclTransport::copy, target.memory, target.device, source.memory, source.device,
        from.bytes(), stream());
    return;
  }
  call("cudaMemcpyAsync", cudaMemcpyAsync, target.memory, source.memory, from.bytes(),
       cudaMemcpyDefault, stream());
}

bool Device::sum_at_once(std::span<Tensor* const> tensors, double factor) {
  std::vector<NcclTransport::Place> arrays;
  std::vector<int> devices;
  for (const Tensor* tensor : tensors) {
    devices.push_back(memory_.device_of(*tensor));
    arrays.push_back({write<void>(*tensor), devices.back()});
  }
  if (!nccl_ || !nccl_->sums(devices)) return false;
  std::vector<StreamReplay::Word> words =
      StreamReplay::words_of(&NcclTransport::all_reduce, factor);
  for (const auto& array : arrays) {
    const auto more = StreamReplay::words_of(array.memory, array.device, stream());
    words.insert(words.end(), more.begin(), more.end());
  }
  put_words(words, [=, this, n = tensors.front()->bytes() / sizeof(float), lane = stream()] {
    nccl_->all_reduce(arrays, n, static_cast<float>(factor), lane);
  });
  return true;
}

Tensor Device::upload(Rank rank, std::span<const float> values) {
  Tensor tensor = memory_.take(rank, values.size_bytes());
  check(
      cudaMemcpy(tensor.data<float>(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
      "cudaMemcpy");
  return tensor;
}

std::vector<float> Device::download(const Tensor& tensor) const {
  std::vector<float> values(tensor.bytes() / sizeof(float));
  check(cudaMemcpy(values.data(), tensor.data<float>(), tensor.bytes(), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  return values;
}

}  // namespace unlatch::exec::cuda
