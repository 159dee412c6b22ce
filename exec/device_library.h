// DeviceLibrary: what the CUDA backend offers the program, which loads it only when it is asked
// for.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/dnn_stage.h"
#include "exec/local_head.h"
#include "exec/precision.h"
#include "exec/stream_memory.h"
#include "exec/stream_order.h"

namespace unlatch::exec {

/// How a device is used.
struct DeviceSettings {
  std::vector<int> devices = {0};  ///< one a rank, or one for all
  std::size_t memory_limit = 0;    ///< bytes a rank; 0: what the device has
  Precision precision = Precision::fp32;
  double loss_scale = 1;              ///< of the gradients on their way; taken off in the update
  bool nccl = false;                  ///< between devices by NCCL, else by copies
  bool deterministic = true;          ///< only algorithms that give the same bits every time
  bool graphs = false;                ///< tasks that come again are launched as one CUDA graph
  std::chrono::seconds timeout{600};  ///< for the device to come to an end with a task
};

/// Everything of one run that lives on a device. Outlives the StageRunner that uses it.
class DeviceRun {
 public:
  virtual ~DeviceRun() = default;
  virtual StreamOrder& order() = 0;
  /// One a stage, copy after copy.
  virtual std::vector<StageModule*> modules() = 0;
  /// One a stage, null for the last of a copy; empty where gradients come from the next stage.
  virtual std::vector<LocalHead*> heads() = 0;
  virtual Feed& feed() = 0;
  /// Of the pool of a rank.
  virtual StreamMemory::Use memory_of(Rank rank) const = 0;
  /// After the run.
  virtual std::vector<float> to_host(const Tensor& tensor) = 0;
  /// Running statistics of the first copy of the model.
  virtual std::vector<float> statistics() = 0;
  /// What there is to say of the run at its end, for its log: graphs launched, updates left out.
  virtual std::vector<std::string> remarks() = 0;
};

class DeviceLibrary {
 public:
  virtual ~DeviceLibrary() = default;
  /// "CUDA 13.0 (loaded 13.0, driver 13.0), cuDNN 9.19.0 (loaded 9.19.0), ..": what it was compiled
  /// with and what it found. Throws Error when the two do not go together.
  virtual std::string versions() const = 0;
  /// The names of the devices. Empty with the reason in *why when there is none.
  virtual std::vector<std::string> devices(std::string* why) const = 0;
  /// `feed` gives the data in host memory. Throws Error for what the device cannot run.
  virtual std::unique_ptr<DeviceRun> start(const TaskGraph& graph, const models::Model& model,
                                           std::span<const models::StageRange> ranges,
                                           const DnnRun& run, const DeviceSettings& settings,
                                           Feed& feed) const = 0;
};

/// Throws Error that says how to get it when this build or machine has none.
const DeviceLibrary& cuda_library();

/// The function that the library exports: const DeviceLibrary* unlatch_device_library().
inline constexpr const char* device_library_entry = "unlatch_device_library";
inline constexpr std::string_view cuda_library_name = "libunlatch_cuda.so";

}  // namespace unlatch::exec
