// SPDX-License-Identifier: Apache-2.0
// Philox on vectors of 64-bit lanes: a 32 x 32 -> 64 bit multiply is one instruction there, and reads the low
// half of its operands alone, so that a lane's high half needs no clearing.
#include "kernels/philox_words.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep {
namespace {

template <class Block>
void each_block(const Block& block, uint64_t seed, PhiloxWords& words, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const PhiloxBlock start = words.block(i);
    const auto joined = [](uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; };
    const PhiloxBlock made = block(seed, joined(start[2], start[3]), joined(start[0], start[1]));
    for (size_t k = 0; k < 4; ++k) words.word[k][i] = made[k];
  }
}

#if defined(__x86_64__)

// One round on c[0] … c[3], each the low half of a 64-bit lane.
[[gnu::target("avx2"), gnu::always_inline]] inline void philox_round(__m256i (&c)[4], __m256i key0,
                                                                     __m256i key1) {
  const __m256i a = _mm256_mul_epu32(c[0], _mm256_set1_epi64x(0xD2511F53));
  const __m256i b = _mm256_mul_epu32(c[2], _mm256_set1_epi64x(0xCD9E8D57));
  c[0] = _mm256_xor_si256(_mm256_srli_epi64(b, 32), _mm256_xor_si256(c[1], key0));
  c[2] = _mm256_xor_si256(_mm256_srli_epi64(a, 32), _mm256_xor_si256(c[3], key1));
  c[1] = b;
  c[3] = a;
}
[[gnu::target("avx512f"), gnu::always_inline]] inline void philox_round(__m512i (&c)[4], __m512i key0,
                                                                        __m512i key1) {
  constexpr int kXor3 = 0x96;
  const __m512i a = _mm512_mul_epu32(c[0], _mm512_set1_epi64(0xD2511F53));
  const __m512i b = _mm512_mul_epu32(c[2], _mm512_set1_epi64(0xCD9E8D57));
  c[0] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(b, 32), c[1], key0, kXor3);
  c[2] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(a, 32), c[3], key1, kXor3);
  c[1] = b;
  c[3] = a;
}

// Eight blocks: those of even and of odd place side by side, two chains that do not wait for each other.
[[gnu::target("avx2")]] void generate_avx2(uint64_t seed, PhiloxWords& words, int64_t count) {
  for (int64_t i = 0; i < count; i += 8) {
    __m256i even[4], odd[4];
    for (int k = 0; k < 4; ++k) {
      even[k] = _mm256_load_si256(reinterpret_cast<const __m256i*>(words.word[k] + i));
      odd[k] = _mm256_srli_epi64(even[k], 32);
    }
    uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const __m256i k0 = _mm256_set1_epi64x(key0), k1 = _mm256_set1_epi64x(key1);
      philox_round(even, k0, k1);
      philox_round(odd, k0, k1);
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    for (int k = 0; k < 4; ++k)
      _mm256_store_si256(reinterpret_cast<__m256i*>(words.word[k] + i),
                         _mm256_blend_epi32(even[k], _mm256_slli_epi64(odd[k], 32), 0xaa));
  }
}

// Sixteen blocks, likewise.
[[gnu::target("avx512f")]] void generate_avx512(uint64_t seed, PhiloxWords& words, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    __m512i even[4], odd[4];
    for (int k = 0; k < 4; ++k) {
      even[k] = _mm512_load_si512(words.word[k] + i);
      odd[k] = _mm512_srli_epi64(even[k], 32);
    }
    uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const __m512i k0 = _mm512_set1_epi64(key0), k1 = _mm512_set1_epi64(key1);
      philox_round(even, k0, k1);
      philox_round(odd, k0, k1);
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    for (int k = 0; k < 4; ++k)
      _mm512_store_si512(words.word[k] + i,
                         _mm512_mask_blend_epi32(0xaaaa, even[k], _mm512_slli_epi64(odd[k], 32)));
  }
}

#endif

}  // namespace

void generate(uint64_t seed, PhiloxWords& words, int64_t count, Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::kAvx512) return generate_avx512(seed, words, count);
  if (simd == Simd::kAvx2) return generate_avx2(seed, words, count);
#endif
  each_block([](auto... arguments) { return philox(arguments...); }, seed, words, count);
}

void generate_by(BlockFunction block, uint64_t seed, PhiloxWords& words, int64_t count) {
  each_block(block, seed, words, count);
}

}  // namespace lockstep
