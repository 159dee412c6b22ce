// UNLATCH_HOST_DEVICE: marks a function that kernels call as well as the host.
#pragma once

#ifdef __CUDACC__
#define UNLATCH_HOST_DEVICE __host__ __device__
#else
#define UNLATCH_HOST_DEVICE
#endif
