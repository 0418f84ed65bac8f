// SPDX-License-Identifier: Apache-2.0
#include "engine/random/forged_words.h"

#include <iterator>

#include "engine/values/error.h"

namespace lockstep {
namespace {

PhiloxBlock zeros(uint64_t, uint64_t, uint64_t) {
  return {};
}
PhiloxBlock ones(uint64_t, uint64_t, uint64_t) {
  constexpr uint32_t kAll = ~uint32_t{0};
  return {kAll, kAll, kAll, kAll};
}
PhiloxBlock equal(uint64_t seed, uint64_t, uint64_t) {
  return philox(seed, 0, 0);
}

constexpr uint32_t kEdges[] = {0x00000000, 0x00000001, 0x000001ff, 0x00000200, 0x001fffff, 0x3fffffff,
                               0x40000000, 0x7fffff80, 0x7fffffff, 0x80000000, 0xc0000000, 0xfffffe00,
                               0xffffff00, 0xffffff7f, 0xffffff80, 0xffffffff};
PhiloxBlock edges(uint64_t seed, uint64_t subsequence, uint64_t counter) {
  constexpr uint64_t kCount = std::size(kEdges);
  const uint64_t number = seed + subsequence + kCount * counter;
  const uint32_t x = kEdges[number % kCount], y = kEdges[number / kCount % kCount];
  return {x, y, y, x};
}

}  // namespace

BlockFunction block_function(RandomWords words) {
  switch (words) {
    case RandomWords::kPhilox:
      return philox;
    case RandomWords::kZeros:
      return zeros;
    case RandomWords::kOnes:
      return ones;
    case RandomWords::kEqual:
      return equal;
    case RandomWords::kEdges:
      return edges;
  }
  throw Broken("unknown random words");
}

}  // namespace lockstep
