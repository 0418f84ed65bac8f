// SPDX-License-Identifier: Apache-2.0
// The fixed logarithm, sine and cosine of normal values. README.md states every operation; this file only
// spells it, without branches or loops, so that a compiler can compute several values at once.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/host_device.h"

namespace lockstep {

template <class T>
struct SinCos {
  T sin, cos;
};

LOCKSTEP_HOST_DEVICE inline float float_of(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// c0 + z * (c1 + z * (c2 + …)), two roundings a step.
LOCKSTEP_HOST_DEVICE inline double horner(double, double c) {
  return c;
}
template <class... C>
LOCKSTEP_HOST_DEVICE double horner(double z, double c, C... rest) {
  return c + z * horner(z, rest...);
}

// @pre u is positive and normal. Measured: at most 0.87 ulp from the true value on (0, 1].
LOCKSTEP_HOST_DEVICE inline float log32(float u) {
  const int32_t bits = std::bit_cast<int32_t>(u);
  const int32_t exponent = static_cast<int32_t>(static_cast<uint32_t>(bits - 0x3f2aaaab) & 0xff800000u);
  const float f = std::bit_cast<float>(bits - exponent) - 1.0f;
  float p = std::fmaf(float_of(0xbe055027), f, float_of(0x3e1039f6));
  p = std::fmaf(p, f, float_of(0xbdf8cdcc));
  p = std::fmaf(p, f, float_of(0x3e0f2955));
  p = std::fmaf(p, f, float_of(0xbe2ad8b9));
  p = std::fmaf(p, f, float_of(0x3e4ced0b));
  p = std::fmaf(p, f, float_of(0xbe7fff22));
  p = std::fmaf(p, f, float_of(0x3eaaaa78));
  p = std::fmaf(p, f, float_of(0xbf000000));
  const float r = std::fmaf(p * f, f, f);
  return std::fmaf(static_cast<float>(exponent) * 0x1p-23f, float_of(0x3f317218), r);
}

// @pre u is positive and normal.
LOCKSTEP_HOST_DEVICE inline double log64(double u) {
  const int64_t bits = std::bit_cast<int64_t>(u);
  // The upper half has all of k, and vectors of 32-bit integers can be shifted and converted.
  const int32_t k = static_cast<int32_t>((bits - 0x3fe6a09e667f3bcd) >> 32) >> 20;
  const double f = std::bit_cast<double>(bits - int64_t{k} * (int64_t{1} << 52)) - 1.0;
  const double g = f / (2.0 + f), z = g * g, w = z * z;
  const double a = w * (0x1.999999997fa04p-2 + w * (0x1.c71c51d8e78afp-3 + w * 0x1.39a09d078c69fp-3));
  const double b = z * (0x1.5555555555593p-1 +
                        w * (0x1.2492494229359p-2 + w * (0x1.7466496cb03dep-3 + w * 0x1.2f112df3e5244p-3)));
  const double half_square = (0.5 * f) * f, exponent = static_cast<double>(k);
  return exponent * 0x1.62e42feep-1 -
         ((half_square - (g * (half_square + (a + b)) + exponent * 0x1.a39ef35793c76p-33)) - f);
}

// Sine and cosine of r + quadrant * pi/2, |r| <= pi/4.
LOCKSTEP_HOST_DEVICE inline SinCos<double> sincos_reduced(double r, int quadrant) {
  const double z = r * r;
  const double p = horner(z, -0x1.5555555555549p-3, 0x1.111111110f8a6p-7, -0x1.a01a019c161d5p-13,
                          0x1.71de357b1fe7dp-19, -0x1.ae5e68a2b9cebp-26, 0x1.5d93a5acfd57cp-33);
  const double s = r + (r * z) * p;
  const double q = horner(z, 0x1.555555555554cp-5, -0x1.6c16c16c15177p-10, 0x1.a01a019cb1590p-16,
                          -0x1.27e4f809c52adp-22, 0x1.1ee9ebdb4b1c4p-29, -0x1.8fae9be8838d4p-37);
  const double c = (1.0 - 0.5 * z) + (z * z) * q;
  const bool odd = (quadrant & 1) != 0;
  const double sine = odd ? c : s, cosine = odd ? s : c;
  return {(quadrant & 2) != 0 ? -sine : sine, ((quadrant + 1) & 2) != 0 ? -cosine : cosine};
}

// Of an angle in (0, 6.2831856], in radians.
LOCKSTEP_HOST_DEVICE inline SinCos<float> sincos32(float angle) {
  const double t = static_cast<double>(angle);
  const int q = static_cast<int>(t * 0x1.45f306dc9c883p-1 + 0.5);
  const double r = (t - q * 0x1.921fb54442d18p+0) - q * 0x1.1a62633145c07p-54;
  const SinCos<double> result = sincos_reduced(r, q);
  return {static_cast<float>(result.sin), static_cast<float>(result.cos)};
}

// Of an angle in (0, 2], in units of pi.
LOCKSTEP_HOST_DEVICE inline SinCos<double> sincos64_pi(double angle) {
  const int q = static_cast<int>(2.0 * angle + 0.5);
  return sincos_reduced((angle - 0.5 * q) * 0x1.921fb54442d18p+1, q);
}

}  // namespace lockstep
