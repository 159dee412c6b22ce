// The stand-in of NCCL: sends, receives and sums between the stand-in's devices.
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/standin/device.h"

using namespace unlatch::standin;

namespace {

struct Clique {
  std::vector<ncclComm_t> all;
  std::vector<CompletionPointer> obstacles;  ///< what ends with the communicators
  ncclResult_t failed = ncclSuccess;
  std::vector<float> factors;  ///< of the sums that were made
};

}  // namespace

struct ncclComm {
  int device = 0;
  int number = 0;
  std::shared_ptr<Clique> clique;
};

namespace {

constexpr int first_operation = 100;  ///< numbers of sums, by communicator

struct Operation {
  enum { send, receive, sum } kind;
  ncclComm_t communicator;
  cudaStream_t stream;
  void* to;
  const void* from;
  std::size_t bytes;
  int peer;  ///< of a send or receive
  float factor;
  bool put = false;
};

std::vector<Operation> group;
bool in_group = false;
std::string reason;

ncclResult_t refuse(const char* why) {
  reason = why;
  return ncclInvalidUsage;
}

/// Everything is read before anything is written; each writes on its own stream.
ncclResult_t put(const std::shared_ptr<Clique>& clique, const std::vector<Operation*>& together,
                 const std::function<std::vector<std::byte>()>& read) {
  World& world = World::instance();
  const auto arrived = std::make_shared<std::vector<std::byte>>();
  std::vector<Part> parts;
  for (Operation* operation : together) {
    operation->put = true;
    if (!world.is_live(operation->stream) ||
        operation->stream->device != operation->communicator->device) {
      return refuse("a stream of another device than the communicator's");
    }
    Part part{operation->stream, {}, [] {}};
    if (operation->kind != Operation::receive) {
      part.memory.push_back({operation->from, operation->bytes});
    }
    if (operation->kind != Operation::send) {
      part.memory.push_back({operation->to, operation->bytes});
      part.work = [arrived, to = operation->to] {
        std::memcpy(to, arrived->data(), arrived->size());
      };
    }
    parts.push_back(std::move(part));
  }
  const cudaError_t error = put_on_all(parts, [clique, arrived, read, &world] {
    static int exchanges = 0;
    *arrived = read();
    if (++exchanges != settings().fail_nccl) return;
    clique->failed = ncclRemoteError;
    clique->obstacles.push_back(world.block());
  });
  if (error == cudaSuccess) return ncclSuccess;
  reason = cudaGetErrorString(error);
  return ncclUnhandledCudaError;
}

/// A send with its receive.
ncclResult_t put_exchange(Operation& send) {
  const auto other = std::ranges::find_if(group, [&](const Operation& o) {
    return !o.put && o.kind == Operation::receive &&
           o.communicator->clique == send.communicator->clique &&
           o.communicator->number == send.peer && o.peer == send.communicator->number;
  });
  if (other == group.end()) return refuse("a send that nobody receives would never end");
  if (other->bytes != send.bytes) return refuse("more is sent than received, or less");
  return put(send.communicator->clique, {&send, &*other}, [from = send.from, n = send.bytes] {
    const auto* bytes = static_cast<const std::byte*>(from);
    return std::vector<std::byte>(bytes, bytes + n);
  });
}

/// In the order of the communicators, one of them after the other.
ncclResult_t put_sum(Operation& first) {
  const std::shared_ptr<Clique>& clique = first.communicator->clique;
  std::vector<Operation*> all;
  for (const ncclComm_t communicator : clique->all) {
    const auto own = std::ranges::find_if(group, [&](const Operation& o) {
      return !o.put && o.kind == Operation::sum && o.communicator == communicator;
    });
    if (own == group.end()) return refuse("a sum that not all take part in would never end");
    if (own->bytes != first.bytes) return refuse("sums of arrays of several lengths");
    all.push_back(&*own);
  }
  std::vector<Operation> operations;
  for (const Operation* operation : all) operations.push_back(*operation);
  return put(clique, all, [operations] {
    std::vector<float> sums(operations.front().bytes / sizeof(float));
    for (const Operation& operation : operations) {
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += operation.factor * static_cast<const float*>(operation.from)[i];
      }
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(sums.data());
    return std::vector<std::byte>(bytes, bytes + operations.front().bytes);
  });
}

ncclResult_t add(Operation operation) {
  if (!in_group) return refuse("a part of an exchange outside of a group");
  group.push_back(operation);
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = settings().nccl != 0 ? settings().nccl : NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "unhandled cuda error";
  }
}
const char* ncclGetLastError(ncclComm_t) { return reason.c_str(); }

ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int n, const int* devices) {
  auto clique = std::make_shared<Clique>();
  for (int i = 0; i < n; ++i) {
    if (std::count(devices, devices + n, devices[i]) != 1) return refuse("a device twice");
    communicators[i] = new ncclComm{devices[i], i, clique};
    clique->all.push_back(communicators[i]);
  }
  return ncclSuccess;
}
/// It waits for what is under way.
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  World::instance().require_no_obstacle("ncclCommDestroy");
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (communicator == nullptr) return refuse("no communicator");
  for (const CompletionPointer& obstacle : communicator->clique->obstacles) {
    obstacle->reached = true;
  }
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  if (communicator == nullptr) return refuse("no communicator");
  *error = communicator->clique->failed;
  return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* operation, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t communicator) {
  if (type != ncclFloat32 || residence != ncclScalarHostImmediate) return refuse("not here");
  communicator->clique->factors.push_back(*static_cast<const float*>(scalar));
  *operation = static_cast<ncclRedOp_t>(first_operation +
                                        static_cast<int>(communicator->clique->factors.size()) - 1);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  if (in_group) return refuse("a group within a group");
  in_group = true;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  in_group = false;
  ncclResult_t result = ncclSuccess;
  for (Operation& operation : group) {
    if (operation.put || result != ncclSuccess) continue;
    if (operation.kind == Operation::send) result = put_exchange(operation);
    if (operation.kind == Operation::sum) result = put_sum(operation);
  }
  for (const Operation& operation : group) {
    if (result == ncclSuccess && !operation.put) {
      result = refuse("a receive that nobody sends to would never end");
    }
  }
  group.clear();
  return result;
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  if (type != ncclInt8) return refuse("not here");
  return add({Operation::send, communicator, stream, nullptr, from, count, peer, 1});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  if (type != ncclInt8) return refuse("not here");
  return add({Operation::receive, communicator, stream, to, nullptr, count, peer, 1});
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  const int at = static_cast<int>(operation) - first_operation;
  const std::vector<float>& factors = communicator->clique->factors;
  if (type != ncclFloat32 || at < 0 || at >= static_cast<int>(factors.size())) {
    return refuse("an operation that was not made here");
  }
  return add({Operation::sum, communicator, stream, to, from, count * sizeof(float), 0,
              factors[static_cast<std::size_t>(at)]});
}
