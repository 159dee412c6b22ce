// The stand-in of CUDA's runtime: launches of kernels, which nvcc's host code calls.
#include <cxxabi.h>

#include <cstdlib>

#include "exec/cuda_launch.cuh"
#include "tests/cuda/standin/api.h"

using namespace unlatch::standin;

namespace {

struct Configuration {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
Configuration configuration;

std::map<const void*, std::string>& names() {  // as the compiler mangled them, by host function
  static auto& names = *new std::map<const void*, std::string>;
  return names;
}

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = text == nullptr ? name : text;
  std::free(text);
  return result;
}

/// By its parameters, which no two kernels share: "(unsigned long, Relu<float>)".
const HostKernel* host_form(const void* function) {
  static std::map<const void*, const HostKernel*> known;
  if (const auto found = known.find(function); found != known.end()) return found->second;
  const auto name = names().find(function);
  if (name == names().end()) return nullptr;
  const std::string kernel = demangled(name->second.c_str());
  for (const HostKernel& candidate : host_kernels()) {
    const std::string type = demangled(candidate.type.name());
    if (kernel.ends_with(type.substr(type.find('(')))) return known[function] = &candidate;
  }
  return nullptr;
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** arguments,
                   cudaStream_t stream) {
  return call([&] {
    const HostKernel* kernel = host_form(function);
    if (kernel == nullptr) {
      return world().refuse(cudaErrorInvalidDeviceFunction, "a kernel without a form for the host");
    }
    Bound bound = kernel->bind(arguments);
    std::vector<Range> memory;
    for (const void* word : bound.words) {
      if (world().former_allocation(word) != nullptr) memory.push_back({word, 1});
    }
    return put_kernel("a kernel", stream, std::move(memory),
                      [run = std::move(bound.run), grid, block] { run(grid, block); });
  });
}

}  // namespace

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void*) {
  return call([&] {
    *found = {};
    const bool fits = world().current != settings().old_device;
    return fits ? cudaSuccess : cudaErrorNoKernelImageForDevice;
  });
}

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* binary = nullptr;
  return &binary;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  names()[function] = name;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* stream) {
  configuration = {grid, block, shared, static_cast<cudaStream_t>(stream)};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t, cudaStream_t stream) {
  return launch(function, grid, block, arguments, stream);
}

// Some versions of nvcc ask for a handle first.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t, cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, stream);
}

}  // extern "C"
