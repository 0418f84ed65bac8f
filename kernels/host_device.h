// SPDX-License-Identifier: Apache-2.0
// LOCKSTEP_HOST_DEVICE: before a function that nvcc compiles for the GPU too. One text, both machines.
#pragma once

#if defined(__CUDACC__)
#define LOCKSTEP_HOST_DEVICE __host__ __device__
#else
#define LOCKSTEP_HOST_DEVICE
#endif
