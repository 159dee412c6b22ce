// The stand-in of a profiler: a library that NVTX loads where NVTX_INJECTION64_PATH names it. It
// writes the ranges of the host's thread to the file that UNLATCH_STANDIN_NVTX names, a line each:
// how many are open around it, and its name.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>

namespace {

std::FILE* file = nullptr;
int open_ranges = 0;

int push(const char* name) {
  std::fprintf(file, "%d %s\n", open_ranges, name);
  std::fflush(file);
  return open_ranges++;
}

int pop() {
  if (open_ranges == 0) std::fputs("a range ended that nobody began\n", file);
  return --open_ranges;
}

}  // namespace

/// What NVTX looks for. 1: it went well.
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const char* path = std::getenv("UNLATCH_STANDIN_NVTX");
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (path == nullptr || callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0) {
    return 0;
  }
  file = std::fopen(path, "w");
  if (file == nullptr) return 0;
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
