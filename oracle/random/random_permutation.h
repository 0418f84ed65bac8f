// SPDX-License-Identifier: Apache-2.0
// randperm as stock CUDA computes it: random keys, sorted by their low bits with the indices as payload; then
// runs of equal keys ("islands") are shuffled. All in integers.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/stream/random_call.h"

namespace lockstep::oracle {

// The bits of the keys that are sorted by: enough that keys of n indices all differ with probability 0.9.
int permutation_bits(int64_t n);

// Indices 0, 1, … in the order of the lowest `bits` bits of their keys, equal ones as they stood: a radix
// sort of signed keys. `keys` is left in the same order.
template <class Key>  // int32_t, int64_t
std::vector<int64_t> sort_by_keys(std::vector<Key>& keys, int bits);

// randperm_handle_duplicate_keys_kernel: the first thread of each island of sorted `keys` shuffles its
// `data`.
template <class Key>
void shuffle_islands(const std::vector<Key>& keys, int bits, const RandomState& state,
                     std::vector<int64_t>& data);

// The words by which the islands' launch advances the generator.
uint64_t islands_reserve(int64_t n);

}  // namespace lockstep::oracle
