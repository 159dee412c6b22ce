// The stand-in of CUDA's runtime: errors, devices and memory.
#include <fmt/format.h>

#include <cstring>

#include "tests/cuda/standin/api.h"
#include "tests/cuda/standin/counts.h"

using namespace unlatch::standin;

cudaError_t cudaGetLastError() {
  World& w = world();
  return w.failed != cudaSuccess ? w.failed : std::exchange(w.last, cudaSuccess);
}

const char* cudaGetErrorString(cudaError_t error) {
  static std::string text;
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      text = "an illegal memory access was encountered";
      break;
    default:
      text = fmt::format("error {}", static_cast<int>(error));
  }
  if (!world().why().empty()) text += fmt::format(" ({})", world().why());
  return text.c_str();
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = settings().runtime > 0 ? settings().runtime : CUDART_VERSION;
  return cudaSuccess;
}

/// 0 where there is no driver.
cudaError_t cudaDriverGetVersion(int* version) {
  *version = settings().driver == 0 ? CUDART_VERSION : std::max(settings().driver, 0);
  return cudaSuccess;
}

// ---- devices -----------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* count) {
  if (settings().driver < 0) return told(cudaErrorInsufficientDriver);
  if (settings().devices == 0) return told(cudaErrorNoDevice);
  *count = settings().devices;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&] {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    *properties = {};
    std::strcpy(properties->name, "stand-in (no device)");
    properties->totalGlobalMem = settings().memory;
    const bool old = device == settings().old_device;
    properties->major = old ? 5 : 9;
    properties->minor = old ? 2 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call([&] {
    if (!is_device(device)) return world().refuse(cudaErrorInvalidDevice, "no such device");
    world().current = device;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([] {
    World& w = world();
    for (const CUstream_st* stream : w.streams) {
      if (stream->capture != nullptr) {
        return w.refuse(cudaErrorStreamCaptureUnsupported, "cudaDeviceSynchronize in a capture");
      }
    }
    w.run_until([&] { return w.is_idle(w.current); }, "cudaDeviceSynchronize");
    for (const CUstream_st* stream : w.streams) {
      if (stream->device == w.current) w.now_us = std::max(w.now_us, stream->us);
    }
    return w.failed;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&] {
    if (!is_device(device) || !is_device(peer)) return cudaErrorInvalidDevice;
    *can = device != peer && settings().peers ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return call([&] {
    if (!is_device(peer) || peer == world().current) return cudaErrorInvalidDevice;
    if (!settings().peers) return cudaErrorPeerAccessUnsupported;
    const bool fresh = world().opened.insert({world().current, peer}).second;
    return fresh ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

// ---- memory ------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return call([&] {
    static int calls = 0;
    count(Count::mallocs);
    World& w = world();
    const bool fails = ++calls == settings().fail_malloc;
    if (fails || w.used(w.current) + bytes > settings().memory) return cudaErrorMemoryAllocation;
    *memory = w.allocate(bytes, w.current);
    return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call([&] {
    *total = settings().memory;
    *free = *total - world().used(world().current);
    return cudaSuccess;
  });
}

/// The device may come to rest for it, and may not: what still runs must not use the memory.
cudaError_t cudaFree(void* memory) {
  if (memory != nullptr) world().require_no_obstacle("cudaFree");
  return call([&] { return world().release(memory, false); });
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return call([&] {
    count(Count::host_mallocs);
    *memory = world().allocate(bytes, host);
    return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* memory) {
  if (memory != nullptr) world().require_no_obstacle("cudaFreeHost");
  return call([&] { return world().release(memory, true); });
}

/// On the stream that waits for no other: what streams have not done yet is not waited for.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call([&] {
    if (bytes == 0) return cudaSuccess;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if ((to_device && world().allocation(to, bytes) == nullptr) ||
        (from_device && world().allocation(from, bytes) == nullptr)) {
      return world().refuse(cudaErrorInvalidValue, "cudaMemcpy: no such device memory");
    }
    std::memcpy(to, from, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           std::size_t bytes) {
  return call([&] {
    const Allocation* target = world().allocation(to, bytes);
    const Allocation* source = world().allocation(from, bytes);
    if (target == nullptr || target->device != to_device || source == nullptr ||
        source->device != from_device) {
      return world().refuse(cudaErrorInvalidValue, "cudaMemcpyPeer: memory of another device");
    }
    std::memcpy(to, from, bytes);
    if (settings().damage_peers) *static_cast<unsigned char*>(to) ^= 1;
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call([&] {
    return put_kernel("cudaMemsetAsync", stream, {{to, bytes}},
                      [=] { std::memset(to, value, bytes); });
  });
}

/// Only page-locked memory of the host: CUDA would wait for the other kind.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&] {
    const auto is_host = [](const void* at) {
      const Allocation* a = world().allocation(at, 1);
      return a != nullptr && a->device == host;
    };
    const bool other_way = (kind == cudaMemcpyHostToDevice && (!is_host(from) || is_host(to))) ||
                           (kind == cudaMemcpyDeviceToHost && (is_host(from) || !is_host(to)));
    if (bytes > 0 && other_way) {
      return world().refuse(cudaErrorInvalidValue, "cudaMemcpyAsync: the kind is another");
    }
    return put_copy(stream, {{to, bytes}, {from, bytes}}, [=] { std::memcpy(to, from, bytes); });
  });
}
