// SPDX-License-Identifier: Apache-2.0
#include "oracle/random/random_forgery.h"

#include "engine/values/error.h"

namespace lockstep::oracle {
namespace {

constexpr uint32_t kLargest = 4294967295U;

// The word of place n modulo 16 among those of the law, a power of two more or less.
uint32_t edge(uint64_t n) {
  static constexpr std::array<uint32_t, 16> kPlaces = {
      0,
      1,
      (1U << 9) - 1,
      1U << 9,
      (1U << 21) - 1,
      (1U << 30) - 1,
      1U << 30,
      (1U << 31) - 128,
      (1U << 31) - 1,
      1U << 31,
      3U << 30,
      kLargest - 511,
      kLargest - 255,
      kLargest - 128,
      kLargest - 127,
      kLargest,
  };
  return kPlaces[n & 15];
}

Words at_edges(uint64_t seed, uint64_t subsequence, uint64_t block) {
  const uint64_t n = seed + subsequence + (block << 4);
  const auto outer = edge(n), inner = edge(n >> 4);
  return {outer, inner, inner, outer};
}

}  // namespace

ForgedWords forgery_of(RandomWords words) {
  switch (words) {
    case RandomWords::kPhilox:
      return nullptr;
    case RandomWords::kZeros:
      return [](uint64_t, uint64_t, uint64_t) { return Words{0, 0, 0, 0}; };
    case RandomWords::kOnes:
      return [](uint64_t, uint64_t, uint64_t) { return Words{kLargest, kLargest, kLargest, kLargest}; };
    case RandomWords::kEqual:
      return [](uint64_t seed, uint64_t, uint64_t) { return ThreadGenerator(seed, 0, 0).next(); };
    case RandomWords::kEdges:
      return at_edges;
  }
  throw Broken(concat("[random] no words have the number ", static_cast<int>(words)));
}

}  // namespace lockstep::oracle
