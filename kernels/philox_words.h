// SPDX-License-Identifier: Apache-2.0
// Many Philox blocks at once, as arrays of words, and their values lane by lane: the part of a fill in which
// the time goes.
#pragma once
#include <array>
#include <cstdint>

#include "kernels/philox.h"
#include "kernels/simd.h"

namespace lockstep {

constexpr int64_t kPhiloxBatch = 256;

// Up to kPhiloxBatch blocks. Before generate: each block's counter (words 0 and 1) and subsequence (2 and 3).
struct alignas(64) PhiloxWords {
  uint32_t word[4][kPhiloxBatch];
  PhiloxBlock block(int64_t i) const { return {word[0][i], word[1][i], word[2][i], word[3][i]}; }
};

// Law: block i becomes philox(seed, its subsequence, its counter), for i < count; later blocks may change.
void generate(uint64_t seed, PhiloxWords& words, int64_t count, Simd simd = best_simd());
// The same by another function than philox, block by block.
void generate_by(BlockFunction block, uint64_t seed, PhiloxWords& words, int64_t count);

}  // namespace lockstep
