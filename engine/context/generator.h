// SPDX-License-Identifier: Apache-2.0
// The random generator of the device that is reproduced, as values.
#pragma once
#include <cstdint>

namespace lockstep {

// The device whose stream is reproduced: the launch geometry of stock CUDA kernels depends on these two
// numbers.
struct DeviceModel {
  int64_t sm_count = 132;  // H100 and H200 SXM
  int64_t threads_per_sm = 2048;
  bool operator==(const DeviceModel&) const = default;
};

// Seed and offset of the one stream; the offset counts 32-bit words per thread and is a multiple of 4.
struct RandomState {
  uint64_t seed = 0;
  uint64_t offset = 0;
  bool operator==(const RandomState&) const = default;
};

struct Generator {
  RandomState state;
  DeviceModel device;
};

}  // namespace lockstep
