// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, the counter-based generator of curand: a pure function of (seed, subsequence, counter).
#pragma once
#include <array>
#include <cstdint>

#include "kernels/host_device.h"

namespace lockstep {

// The four words of one block.
using PhiloxBlock = std::array<uint32_t, 4>;

// What makes blocks in place of Philox, of the same arguments.
using BlockFunction = PhiloxBlock (*)(uint64_t seed, uint64_t subsequence, uint64_t counter);

// Block `counter` of subsequence `subsequence`: what the (counter+1)-th curand4 of a thread returns whose
// state began at offset 0 with that subsequence. The counter counts 128-bit blocks; curand's offset, 32-bit
// words, is 4 times it.
LOCKSTEP_HOST_DEVICE inline PhiloxBlock philox(uint64_t seed, uint64_t subsequence, uint64_t counter) {
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  PhiloxBlock c{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                static_cast<uint32_t>(subsequence), static_cast<uint32_t>(subsequence >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return c;
}

}  // namespace lockstep
