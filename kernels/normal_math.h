// SPDX-License-Identifier: Apache-2.0
// The fixed logarithm, sine and cosine of normal values. README.md states every operation; this file only
// spells it.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace lockstep {

template <class T>
struct SinCos {
  T sin, cos;
};

// @pre u is positive and normal. Measured: at most 0.87 ulp from the true value on (0, 1].
inline float log32(float u) {
  const int32_t bits = std::bit_cast<int32_t>(u);
  const int32_t exponent = static_cast<int32_t>(static_cast<uint32_t>(bits - 0x3f2aaaab) & 0xff800000u);
  const float f = std::bit_cast<float>(bits - exponent) - 1.0f;
  constexpr uint32_t kCoefficients[] = {0x3e1039f6, 0xbdf8cdcc, 0x3e0f2955, 0xbe2ad8b9,
                                        0x3e4ced0b, 0xbe7fff22, 0x3eaaaa78, 0xbf000000};
  float p = std::bit_cast<float>(0xbe055027u);
  for (uint32_t c : kCoefficients) p = std::fmaf(p, f, std::bit_cast<float>(c));
  const float r = std::fmaf(p * f, f, f);
  return std::fmaf(static_cast<float>(exponent) * 0x1p-23f, std::bit_cast<float>(0x3f317218u), r);
}

// @pre u is positive and normal.
inline double log64(double u) {
  const int64_t bits = std::bit_cast<int64_t>(u);
  const int64_t k = (bits - 0x3fe6a09e667f3bcd) >> 52;
  const double f = std::bit_cast<double>(bits - k * (int64_t{1} << 52)) - 1.0;
  const double g = f / (2.0 + f), z = g * g, w = z * z;
  const double a = w * (0x1.999999997fa04p-2 + w * (0x1.c71c51d8e78afp-3 + w * 0x1.39a09d078c69fp-3));
  const double b = z * (0x1.5555555555593p-1 +
                        w * (0x1.2492494229359p-2 + w * (0x1.7466496cb03dep-3 + w * 0x1.2f112df3e5244p-3)));
  const double half_square = (0.5 * f) * f, exponent = static_cast<double>(k);
  return exponent * 0x1.62e42feep-1 -
         ((half_square - (g * (half_square + (a + b)) + exponent * 0x1.a39ef35793c76p-33)) - f);
}

// Sine and cosine of r + quadrant * pi/2, |r| <= pi/4.
inline SinCos<double> sincos_reduced(double r, int quadrant) {
  const double z = r * r;
  double p = 0x1.5d93a5acfd57cp-33;
  for (double c : {-0x1.ae5e68a2b9cebp-26, 0x1.71de357b1fe7dp-19, -0x1.a01a019c161d5p-13,
                   0x1.111111110f8a6p-7, -0x1.5555555555549p-3})
    p = c + z * p;
  const double s = r + (r * z) * p;
  p = -0x1.8fae9be8838d4p-37;
  for (double c : {0x1.1ee9ebdb4b1c4p-29, -0x1.27e4f809c52adp-22, 0x1.a01a019cb1590p-16,
                   -0x1.6c16c16c15177p-10, 0x1.555555555554cp-5})
    p = c + z * p;
  const double c = (1.0 - 0.5 * z) + (z * z) * p;
  switch (quadrant & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

// Of an angle in (0, 6.2831856], in radians.
inline SinCos<float> sincos32(float angle) {
  const double t = static_cast<double>(angle);
  const int q = static_cast<int>(t * 0x1.45f306dc9c883p-1 + 0.5);
  const double r = (t - q * 0x1.921fb54442d18p+0) - q * 0x1.1a62633145c07p-54;
  const SinCos<double> result = sincos_reduced(r, q);
  return {static_cast<float>(result.sin), static_cast<float>(result.cos)};
}

// Of an angle in (0, 2], in units of pi.
inline SinCos<double> sincos64_pi(double angle) {
  const int q = static_cast<int>(2.0 * angle + 0.5);
  return sincos_reduced((angle - 0.5 * q) * 0x1.921fb54442d18p+1, q);
}

}  // namespace lockstep
