# NCCL: NCCL::nccl, NCCL_VERSION. Looks in NCCL_ROOT, beside the CUDA toolkit, and in NVIDIA's
# wheels.
include(${CMAKE_CURRENT_LIST_DIR}/NvidiaWheels.cmake)
find_nvidia_library(NCCL nccl nccl.h nccl.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL
  REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
make_nvidia_target(NCCL NCCL::nccl)
