// UNLATCH_HOST_DEVICE: on functions that nvcc compiles for the device as well.
#pragma once

#ifdef __CUDACC__
#define UNLATCH_HOST_DEVICE __host__ __device__
#else
#define UNLATCH_HOST_DEVICE
#endif
