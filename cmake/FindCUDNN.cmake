# cuDNN: CUDNN::cudnn, CUDNN_VERSION. Looks in CUDNN_ROOT, beside the CUDA toolkit, and in NVIDIA's
# wheels.
include(${CMAKE_CURRENT_LIST_DIR}/NvidiaWheels.cmake)
find_nvidia_library(CUDNN cudnn cudnn.h cudnn_version.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN
  REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
make_nvidia_target(CUDNN CUDNN::cudnn)
