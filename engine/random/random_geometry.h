// SPDX-License-Identifier: Apache-2.0
// RandomGeometry: how a stock CUDA kernel numbers the elements of a tensor and spreads them over launches and
// threads. A function of the global tensor and the device model alone: every rank computes the same.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/stream/random_call.h"

namespace lockstep {

// One kernel launch: it serves the elements [first, first + count) of the tensor's stream.
struct RandomLaunch {
  int64_t first, count, threads;
  uint64_t offset;           // relative to the generator's offset at the call
  uint64_t subsequence = 0;  // of the first thread
  bool operator==(const RandomLaunch&) const = default;
};

struct RandomGeometry {
  // The index of an element in the stream is the sum of its coordinates times these.
  std::vector<int64_t> rank_stride;
  // In order of their elements: more than one where the tensor is too large for 32-bit indexing, and for each
  // distribution of multinomial.
  std::vector<RandomLaunch> launches;
  int64_t vector_width = 1;     // consecutive elements a thread takes at a time
  uint64_t advance = 0;         // how far the call moves the generator's offset
  uint64_t shuffle_offset = 0;  // randperm: where equal keys are shuffled, relative as a launch's offset
  // No launch of any device: element j takes lane j % lanes of block j / lanes of the subsequence that the
  // generator's offset names.
  bool indexed = false;
};

// Law: sum of launch counts == numel; advance is a multiple of 4, and 0 for numel 0.
// Throws Error where the stock operator would: overlapping memory, a dtype or argument that it does not take.
// For kRandperm: the launches that draw the keys.
RandomGeometry random_geometry(const RandomCall& call, const DeviceModel& device);

// Numbers by row-major index, of no device: what RandomPolicy::kIndexed draws. Each call advances by 4.
RandomGeometry indexed_geometry(const RandomCall& call);

// Values that one Philox block yields for this call: 4, or 2 for 64-bit values.
int64_t lanes_per_block(const RandomCall& call);

// The call that draws the keys which a permutation sorts by.
RandomCall permutation_keys(const RandomCall& call);
// The low bits of the keys that are compared.
int permutation_key_bits(int64_t n);

}  // namespace lockstep
