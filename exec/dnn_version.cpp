#include "exec/dnn_version.h"

#include <fmt/format.h>

#include "exec/dnn_op.h"

namespace unlatch::exec {

std::string cpu_arithmetic() {
  const dnnl_version_t& version = *dnnl::version();
  return fmt::format("oneDNN {}.{}.{} for instruction set {:#x}, blocks of {} channels",
                     version.major, version.minor, version.patch,
                     static_cast<unsigned>(dnnl::get_effective_cpu_isa()),
                     preferred_channel_block());
}

}  // namespace unlatch::exec
