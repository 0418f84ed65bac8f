// SPDX-License-Identifier: Apache-2.0
// What one thread of a simulated kernel has: its Philox generator, and the transformations from words to
// values. Written from curand's and libtorch's definitions, and for normal values from the text in
// kernels/README.md.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace lockstep::oracle {

using Words = std::array<uint32_t, 4>;

// curandStatePhilox4_32_10_t after curand_init(seed, subsequence, offset), offset a multiple of 4.
class ThreadGenerator {
 public:
  ThreadGenerator(uint64_t seed, uint64_t subsequence, uint64_t offset)
      : seed_(seed), subsequence_(subsequence), block_(offset / 4) {}

  // curand4: the next four words.
  Words next() {
    uint32_t c[4] = {low(block_), high(block_), low(subsequence_), high(subsequence_)};
    uint32_t key[2] = {low(seed_), high(seed_)};
    ++block_;
    for (int round = 0; round < 10; ++round) {
      const uint64_t first = uint64_t{0xD2511F53} * c[0], second = uint64_t{0xCD9E8D57} * c[2];
      const uint32_t next_c[4] = {high(second) ^ c[1] ^ key[0], low(second), high(first) ^ c[3] ^ key[1],
                                  low(first)};
      for (int i = 0; i < 4; ++i) c[i] = next_c[i];
      key[0] += 0x9E3779B9;
      key[1] += 0xBB67AE85;
    }
    return {c[0], c[1], c[2], c[3]};
  }

 private:
  static uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
  static uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
  uint64_t seed_, subsequence_, block_;
};

// at::acc_type on CUDA.
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

// kernels/README.md, "log32(u)".
inline float text_log32(float u) {
  const uint32_t bits = std::bit_cast<uint32_t>(u);
  const auto e = static_cast<int32_t>((bits - 0x3f2aaaab) & 0xff800000);
  const float m = std::bit_cast<float>(bits - static_cast<uint32_t>(e));
  const float i = static_cast<float>(e) * 0x1p-23F, f = m - 1;
  static constexpr uint32_t kCoefficients[] = {0xbe055027, 0x3e1039f6, 0xbdf8cdcc, 0x3e0f2955, 0xbe2ad8b9,
                                               0x3e4ced0b, 0xbe7fff22, 0x3eaaaa78, 0xbf000000};
  float p = std::bit_cast<float>(kCoefficients[0]);
  for (int k = 1; k < 9; ++k) p = std::fma(p, f, std::bit_cast<float>(kCoefficients[k]));
  const float r = std::fma(p * f, f, f);
  return std::fma(i, std::bit_cast<float>(0x3f317218), r);
}

// kernels/README.md, "log64(u)".
inline double text_log64(double u) {
  const auto bits = std::bit_cast<uint64_t>(u);
  const int64_t k = static_cast<int64_t>(bits - 0x3fe6a09e667f3bcd) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(k) << 52));
  const double f = m - 1, g = f / (2 + f), z = g * g, w = z * z;
  const double a = w * (0x1.999999997fa04p-2 + w * (0x1.c71c51d8e78afp-3 + w * 0x1.39a09d078c69fp-3));
  const double b = z * (0x1.5555555555593p-1 +
                        w * (0x1.2492494229359p-2 + w * (0x1.7466496cb03dep-3 + w * 0x1.2f112df3e5244p-3)));
  const double r = a + b, h = (0.5 * f) * f, kd = static_cast<double>(k);
  return kd * 0x1.62e42feep-1 - ((h - (g * (h + r) + kd * 0x1.a39ef35793c76p-33)) - f);
}

struct SineCosine {
  double sine, cosine;
};

// kernels/README.md, "polynomials(r)" and the choice by quadrant.
inline SineCosine text_polynomials(double r) {
  static constexpr double kSine[] = {0x1.5d93a5acfd57cp-33,  -0x1.ae5e68a2b9cebp-26, 0x1.71de357b1fe7dp-19,
                                     -0x1.a01a019c161d5p-13, 0x1.111111110f8a6p-7,   -0x1.5555555555549p-3};
  static constexpr double kCosine[] = {-0x1.8fae9be8838d4p-37, 0x1.1ee9ebdb4b1c4p-29,  -0x1.27e4f809c52adp-22,
                                       0x1.a01a019cb1590p-16,  -0x1.6c16c16c15177p-10, 0x1.555555555554cp-5};
  const double z = r * r;
  double s = kSine[0], c = kCosine[0];
  for (int k = 1; k < 6; ++k) s = kSine[k] + z * s;
  for (int k = 1; k < 6; ++k) c = kCosine[k] + z * c;
  return {r + (r * z) * s, (1 - 0.5 * z) + (z * z) * c};
}
inline SineCosine turned(SineCosine p, int64_t quadrant) {
  switch (quadrant % 4) {
    case 0:
      return p;
    case 1:
      return {p.cosine, -p.sine};
    case 2:
      return {-p.sine, -p.cosine};
    default:
      return {-p.cosine, p.sine};
  }
}

// Standard normal values of one curand4: lanes in order.
template <class Acc>
auto normal_values(const Words& w) {
  if constexpr (std::is_same_v<Acc, double>) {
    const double v = std::fma(static_cast<double>(mantissa_bits(w[2], w[3])), 0x1p-52, 0x1p-53);
    const double s = std::sqrt(-2.0 * text_log64(unit_double(w[0], w[1])));
    const auto q = static_cast<int64_t>(2 * v + 0.5);
    const double r = (v - 0.5 * static_cast<double>(q)) * 0x1.921fb54442d18p+1;
    const auto turn = turned(text_polynomials(r), q);
    return std::array<double, 2>{turn.sine * s, turn.cosine * s};
  } else {
    std::array<float, 4> values{};
    for (size_t pair = 0; pair < 4; pair += 2) {
      const float s = std::sqrt(-2.0F * text_log32(unit_float(w[pair])));
      const float v = std::fma(static_cast<float>(w[pair + 1]), std::bit_cast<float>(0x30c90fdb),
                               std::bit_cast<float>(0x30490fdb));
      const double t = v;
      const auto q = static_cast<int64_t>(t * 0x1.45f306dc9c883p-1 + 0.5);
      const auto qd = static_cast<double>(q);
      const double r = (t - qd * 0x1.921fb54442d18p+0) - qd * 0x1.1a62633145c07p-54;
      const auto turn = turned(text_polynomials(r), q);
      values[pair] = static_cast<float>(turn.sine) * s;
      values[pair + 1] = static_cast<float>(turn.cosine) * s;
    }
    return values;
  }
}

}  // namespace lockstep::oracle
