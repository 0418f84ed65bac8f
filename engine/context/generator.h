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

// Whose words the stream is made of. All but Philox's are forged, for tests: what sampling meets once in 2^32
// draws, they meet in each. oracle/README.md has their law. manual_seed and set_rng_state go back to
// Philox's.
enum class RandomWords { kPhilox, kZeros, kOnes, kEqual, kEdges };

// Seed and offset of the one stream; the offset counts 32-bit words per thread and is a multiple of 4.
struct RandomState {
  uint64_t seed = 0;
  uint64_t offset = 0;
  RandomWords words = RandomWords::kPhilox;
  bool operator==(const RandomState&) const = default;
};

struct Generator {
  RandomState state;
  DeviceModel device;
};

}  // namespace lockstep
