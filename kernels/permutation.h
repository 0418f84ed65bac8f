// SPDX-License-Identifier: Apache-2.0
// randperm of stock CUDA: the stable order of random keys by their low bits, and a shuffle within each run of
// equal ones.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/philox.h"

namespace lockstep {

// What a key of `width` bits is compared by: its low `bits` bits; all of them are compared as a signed
// number.
inline uint64_t sort_key(int64_t key, int bits, int width) {
  const auto word = static_cast<uint64_t>(key);
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t sign = bits == width ? uint64_t{1} << (width - 1) : 0;
  return (word & mask) ^ sign;
}

// Indices of the keys in ascending order, equal ones as they come.
inline std::vector<int64_t> stable_order(const std::vector<uint64_t>& keys) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
    return keys[static_cast<size_t>(x)] < keys[static_cast<size_t>(y)];
  });
  return order;
}

// Fisher-Yates within each run of `order` whose keys are equal, with the words of the subsequence of the
// run's first place, from block `counter` on.
inline void shuffle_equal_keys(const std::vector<uint64_t>& keys, uint64_t seed, uint64_t counter,
                               std::vector<int64_t>& order, BlockFunction block = philox) {
  const auto key = [&](size_t place) { return keys[static_cast<size_t>(order[place])]; };
  for (size_t first = 0, next = 0; first < order.size(); first = next) {
    next = first + 1;
    while (next < order.size() && key(next) == key(first)) ++next;
    uint64_t drawn = 0;
    for (size_t i = next - first - 1; i > 0; --i, ++drawn) {
      const uint32_t word = block(seed, first, counter + drawn / 4)[drawn % 4];
      const size_t r = word % static_cast<uint32_t>(i + 1);
      std::swap(order[first + i], order[first + r]);
    }
  }
}

}  // namespace lockstep
