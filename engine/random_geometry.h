// SPDX-License-Identifier: Apache-2.0
// RandomGeometry: how a stock CUDA kernel numbers the elements of a tensor and spreads them over launches and
// threads. A function of the global tensor and the device model alone: every rank computes the same.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/values/random_call.h"

namespace lockstep {

// One kernel launch: it serves the elements [first, first + count) of the tensor's stream.
struct RandomLaunch {
  int64_t first = 0;
  int64_t count = 0;
  int64_t threads = 0;
  uint64_t offset = 0;  // relative to the generator's offset at the call
  bool operator==(const RandomLaunch&) const = default;
};

struct RandomGeometry {
  // The index of an element in the stream is the sum of its coordinates times these.
  std::vector<int64_t> rank_stride;
  // In order of their elements: more than one where the tensor is too large for 32-bit indexing.
  std::vector<RandomLaunch> launches;
  int64_t vector_width = 1;  // dropout: consecutive elements a thread takes at a time
  uint64_t advance = 0;      // how far the call moves the generator's offset
};

// Law: sum of launch counts == numel; advance is a multiple of 4, and 0 for numel 0.
// Throws Error where the stock operator would: overlapping memory, a dtype or argument that it does not take.
RandomGeometry random_geometry(const RandomCall& call, const DeviceModel& device);

// Values that one Philox block yields for this call: 4, or 2 for 64-bit values.
int64_t lanes_per_block(const RandomCall& call);

// Throws Error where the stock operator would refuse the arguments.
void check_random_call(const RandomCall& call);

}  // namespace lockstep
