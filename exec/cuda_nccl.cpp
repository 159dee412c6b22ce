#include "exec/cuda_nccl.h"

#include "schedules/error.h"

namespace unlatch::exec::cuda {

NcclTransport::NcclTransport(const NcclRoutes& routes) {
  for (const auto& [from, to] : routes.pairs) {
    pairs_.emplace(std::pair(from, to), connected({from, to}, to));
  }
  for (const std::vector<int>& devices : routes.groups) {
    groups_.emplace(devices, connected(devices, devices.front()));
  }
}

NcclTransport::~NcclTransport() {
  if (gave_up()) return;
  const auto close = [](const Members& members) {
    for (const Member& member : members.all) {
      if (member.communicator != nullptr) ncclCommDestroy(member.communicator);
      if (member.stream != nullptr) cudaStreamDestroy(member.stream);
      if (member.done != nullptr) cudaEventDestroy(member.done);
    }
    cudaEventDestroy(members.ready);
  };
  for (const auto& [route, members] : pairs_) close(members);
  for (const auto& [devices, members] : groups_) close(members);
}

/// The receiver's member works on the lane itself.
NcclTransport::Members NcclTransport::connected(const std::vector<int>& devices, int receiver) {
  std::vector<ncclComm_t> communicators(devices.size());
  cuda::check(
      ncclCommInitAll(communicators.data(), static_cast<int>(devices.size()), devices.data()),
      "ncclCommInitAll");
  Members members;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    Member member{.device = devices[i], .communicator = communicators[i]};
    cuda::check(cudaSetDevice(devices[i]), "cudaSetDevice");
    if (devices[i] == receiver) {
      cuda::check(cudaEventCreateWithFlags(&members.ready, cudaEventDisableTiming),
                  "cudaEventCreateWithFlags");
    } else {
      cuda::check(cudaStreamCreateWithFlags(&member.stream, cudaStreamNonBlocking),
                  "cudaStreamCreateWithFlags");
      cuda::check(cudaEventCreateWithFlags(&member.done, cudaEventDisableTiming),
                  "cudaEventCreateWithFlags");
    }
    members.all.push_back(member);
  }
  return members;
}

void NcclTransport::begin(const Members& members, StreamHandle lane, int lane_device) {
  cuda::check(cudaEventRecord(members.ready, lane), "cudaEventRecord");
  for (const Member& member : members.all) {
    if (member.device == lane_device) continue;
    cuda::check(cudaStreamWaitEvent(member.stream, members.ready, 0), "cudaStreamWaitEvent");
  }
  cuda::check(ncclGroupStart(), "ncclGroupStart");
}

void NcclTransport::end(const Members& members, StreamHandle lane, int lane_device) {
  cuda::check(ncclGroupEnd(), "ncclGroupEnd");
  for (const Member& member : members.all) {
    if (member.device == lane_device) continue;
    cuda::check(cudaEventRecord(member.done, member.stream), "cudaEventRecord");
    cuda::check(cudaStreamWaitEvent(lane, member.done, 0), "cudaStreamWaitEvent");
  }
}

void NcclTransport::copy(Place to, Place from, std::size_t bytes, StreamHandle receiver) {
  const Members& members = pairs_.at({from.device, to.device});
  const Member& source = members.all[0];
  const Member& target = members.all[1];
  begin(members, receiver, to.device);
  cuda::check(ncclSend(from.memory, bytes, ncclInt8, 1, source.communicator, source.stream),
              "ncclSend");
  cuda::check(ncclRecv(to.memory, bytes, ncclInt8, 0, target.communicator, receiver), "ncclRecv");
  end(members, receiver, to.device);
}

void NcclTransport::all_reduce(const std::vector<Place>& arrays, std::size_t n, float factor,
                               StreamHandle lane) {
  std::vector<int> devices;
  for (const Place& array : arrays) devices.push_back(array.device);
  Members& members = groups_.at(devices);
  std::vector<ncclRedOp_t>& sums = members.sums[factor];
  for (std::size_t i = sums.size(); i < arrays.size(); ++i) {
    cuda::check(ncclRedOpCreatePreMulSum(&sums.emplace_back(), &factor, ncclFloat32,
                                         ncclScalarHostImmediate, members.all[i].communicator),
                "ncclRedOpCreatePreMulSum");
  }
  begin(members, lane, devices.front());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Member& member = members.all[i];
    cuda::check(ncclAllReduce(arrays[i].memory, arrays[i].memory, n, ncclFloat32, sums[i],
                              member.communicator, i == 0 ? lane : member.stream),
                "ncclAllReduce");
  }
  end(members, lane, devices.front());
}

template <class F>
void NcclTransport::each_communicator(F f) const {
  for (const auto& [route, members] : pairs_) {
    for (const Member& member : members.all) f(member);
  }
  for (const auto& [devices, members] : groups_) {
    for (const Member& member : members.all) f(member);
  }
}

void NcclTransport::check() {
  each_communicator([this](const Member& member) {
    if (member.communicator == nullptr) return;
    ncclResult_t result = ncclSuccess;
    cuda::check(ncclCommGetAsyncError(member.communicator, &result), "ncclCommGetAsyncError");
    if (result == ncclSuccess || result == ncclInProgress) return;
    abort();  // whoever waits for the device next would wait for ever
    throw RunError(fmt::format("NCCL on device {}: {}", member.device, ncclGetErrorString(result)));
  });
}

void NcclTransport::abort() noexcept {
  const auto abort_all = [](auto& routes) {
    for (auto& [route, members] : routes) {
      for (Member& member : members.all) {
        if (member.communicator == nullptr) continue;
        ncclCommAbort(std::exchange(member.communicator, nullptr));
      }
    }
  };
  abort_all(pairs_);
  abort_all(groups_);
}

}  // namespace unlatch::exec::cuda
