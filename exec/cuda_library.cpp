// The entry of the CUDA library, and a run put together.
#include <algorithm>
#include <iterator>

#include "exec/cuda_feed.h"
#include "exec/cuda_heads.h"
#include "exec/cuda_stage.h"
#include "exec/cuda_versions.h"
#include "exec/device_library.h"
#include "schedules/error.h"

namespace unlatch::exec::cuda {
namespace {

class CudaRun : public DeviceRun {
 public:
  CudaRun(const TaskGraph& graph, const models::Model& model,
          std::span<const models::StageRange> ranges, const DnnRun& run,
          const DeviceSettings& settings, Feed& feed)
      : device_(graph, settings),
        slots_(device_.order()),
        feed_(device_, feed, graph),
        a_copy_(ranges.size()) {
    for (int copy = 0; copy < graph.shape().copies; ++copy) {
      std::vector<Rank> ranks;
      for (std::size_t k = 0; k < ranges.size(); ++k) {
        ranks.push_back(graph.rank_of(Stage{static_cast<int>(stages_.size() + k)}));
      }
      auto stages =
          make_cuda_stages(model, ranges, run, settings.loss_scale, device_, ranks, slots_);
      auto heads = make_cuda_heads(graph.learning().local_gradients, stages, run,
                                   settings.loss_scale, ranks, slots_);
      std::ranges::move(stages, std::back_inserter(stages_));
      std::ranges::move(heads, std::back_inserter(heads_));
    }
  }

  /// After a failure copies may still be on their way to what is freed next.
  ~CudaRun() override { device_.wait_until_idle(); }

  StreamOrder& order() override { return device_.order(); }
  std::vector<StageModule*> modules() override {
    std::vector<StageModule*> modules;
    for (const auto& stage : stages_) modules.push_back(stage.get());
    return modules;
  }
  std::vector<LocalHead*> heads() override {
    std::vector<LocalHead*> heads;
    for (const CudaHead& of_stage : heads_) heads.push_back(of_stage.head.get());
    return heads;
  }
  Feed& feed() override { return feed_; }
  StreamMemory::Use memory_of(Rank rank) const override { return device_.memory_of(rank); }
  std::vector<float> to_host(const Tensor& tensor) override { return device_.download(tensor); }
  std::vector<float> statistics() override {
    std::vector<float> all;
    for (std::size_t k = 0; k < a_copy_; ++k) {
      const std::vector<float> part = stages_[k]->statistics();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  std::vector<std::string> remarks() override {
    std::vector<std::string> remarks;
    if (const StreamReplay* replay = device_.replay()) {
      const auto& [put, captured, launched] = replay->counts();
      remarks.push_back(
          fmt::format("CUDA graphs: {} captured, {} launched again, {} pieces put "
                      "on the streams one by one",
                      captured, launched, put));
    }
    const auto say_left_out = [&](const char* of, std::size_t k, int left_out) {
      if (left_out == 0) return;
      remarks.push_back(
          fmt::format("{}stage {}: {} update{} left out, the scaled gradient was not "
                      "finite; lower --loss-scale",
                      of, k, left_out, left_out == 1 ? "" : "s"));
    };
    for (std::size_t k = 0; k < stages_.size(); ++k) {
      say_left_out("", k, stages_[k]->updates_left_out());
      if (k >= heads_.size() || heads_[k].head == nullptr) continue;
      say_left_out("local head of ", k, heads_[k].steps_left_out());
    }
    return remarks;
  }

 private:
  Device device_;
  LossSlots slots_;
  CudaFeed feed_;
  std::size_t a_copy_;
  std::vector<std::unique_ptr<CudaStage>> stages_;
  std::vector<CudaHead> heads_;  ///< empty where gradients come from the next stage
};

class CudaLibrary : public DeviceLibrary {
 public:
  std::string versions() const override { return library_versions(); }

  std::vector<std::string> devices(std::string* why) const override {
    int count = 0;  // left alone when the call fails
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) {
      *why = cudaGetErrorString(status);
      cudaGetLastError();
      return {};
    }
    if (count == 0) *why = "CUDA counts 0 devices";
    std::vector<std::string> names;
    for (int d = 0; d < count; ++d) {
      cudaDeviceProp properties;
      check(cudaGetDeviceProperties(&properties, d), "cudaGetDeviceProperties");
      names.emplace_back(properties.name);
    }
    return names;
  }

  std::unique_ptr<DeviceRun> start(const TaskGraph& graph, const models::Model& model,
                                   std::span<const models::StageRange> ranges, const DnnRun& run,
                                   const DeviceSettings& settings, Feed& feed) const override {
    require_code_for(settings.devices);
    return std::make_unique<CudaRun>(graph, model, ranges, run, settings, feed);
  }
};

}  // namespace
}  // namespace unlatch::exec::cuda

extern "C" __attribute__((visibility("default"))) const unlatch::exec::DeviceLibrary*
unlatch_device_library() {
  static const unlatch::exec::cuda::CudaLibrary library;
  return &library;
}
