// SPDX-License-Identifier: Apache-2.0
// What one thread of a simulated kernel has: its Philox generator, and the unit values that curand makes of
// the words. Written from curand's definitions; includes nothing of libtorch, so that curand's own header can
// stand beside it in a test.
#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lockstep::oracle {

using Words = std::array<uint32_t, 4>;

// Words in place of Philox's.
using ForgedWords = Words (*)(uint64_t seed, uint64_t subsequence, uint64_t block);

// curandStatePhilox4_32_10_t after curand_init(seed, subsequence, offset): a position in the endless words of
// one thread.
class ThreadGenerator {
 public:
  ThreadGenerator(uint64_t seed, uint64_t subsequence, uint64_t offset, ForgedWords forged = nullptr)
      : seed_(seed), subsequence_(subsequence), block_(offset / 4), taken_(offset % 4), forged_(forged) {}

  // curand4: the next four words.
  Words next() {
    const Words here = words_of(block_++);
    if (taken_ == 0) return here;
    const Words after = words_of(block_);
    Words result{};
    for (size_t i = 0; i < 4; ++i) {
      const size_t place = taken_ + i;
      result[i] = place < 4 ? here[place] : after[place - 4];
    }
    return result;
  }

  // curand: the next word.
  uint32_t next_word() {
    const uint32_t word = words_of(block_)[taken_];
    taken_ = (taken_ + 1) % 4;
    if (taken_ == 0) ++block_;
    return word;
  }

 private:
  static uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
  static uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

  // Philox4x32-10.
  Words words_of(uint64_t block) const {
    if (forged_ != nullptr) return forged_(seed_, subsequence_, block);
    Words c{low(block), high(block), low(subsequence_), high(subsequence_)};
    uint32_t key[2] = {low(seed_), high(seed_)};
    for (int round = 0; round < 10; ++round) {
      const uint64_t first = uint64_t{0xD2511F53} * c[0], second = uint64_t{0xCD9E8D57} * c[2];
      c = {high(second) ^ c[1] ^ key[0], low(second), high(first) ^ c[3] ^ key[1], low(first)};
      key[0] += 0x9E3779B9;
      key[1] += 0xBB67AE85;
    }
    return c;
  }

  uint64_t seed_, subsequence_, block_;
  size_t taken_;  // words of the block that are gone
  ForgedWords forged_;
};

// at::acc_type on CUDA, and for numbers of events.
template <class T>
using Accumulate = std::conditional_t<std::is_same_v<T, double>, double, float>;

// curand_uniform and the halves of curand_uniform2_double.
inline float unit_float(uint32_t x) {
  return std::fma(static_cast<float>(x), 0x1p-32F, 0x1p-33F);
}
inline uint64_t mantissa_bits(uint32_t x, uint32_t y) {
  return x ^ (static_cast<uint64_t>(y) << 21);
}
inline double unit_double(uint32_t x, uint32_t y) {
  return std::fma(static_cast<double>(mantissa_bits(x, y)), 0x1p-53, 0x1p-54);
}

// The unit values that one curand4 yields: four floats, or two doubles.
template <class Acc>
auto unit_values(const Words& w) {
  if constexpr (std::is_same_v<Acc, double>)
    return std::array<double, 2>{unit_double(w[0], w[1]), unit_double(w[2], w[3])};
  else
    return std::array<float, 4>{unit_float(w[0]), unit_float(w[1]), unit_float(w[2]), unit_float(w[3])};
}

// The whole words that one curand4 yields: four of 32 bits, or two of 64, the first half the high one.
template <size_t kCount>
std::array<uint64_t, kCount> whole_words(const Words& w) {
  if constexpr (kCount == 2)
    return {uint64_t{w[0]} << 32 | w[1], uint64_t{w[2]} << 32 | w[3]};
  else
    return {w[0], w[1], w[2], w[3]};
}

}  // namespace lockstep::oracle
