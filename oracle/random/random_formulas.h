// SPDX-License-Identifier: Apache-2.0
// The functions that Lockstep fixes where stock CUDA uses the GPU's approximate ones, operation by operation
// from the text in kernels/README.md: log, exp, sine, cosine, tangent, and normal values.
#pragma once
#include <bit>
#include <limits>

#include "oracle/random/random_simulation_thread.h"

namespace lockstep::oracle {

// kernels/README.md, "log32(u)".
inline float text_log(float u) {
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
inline double text_log(double u) {
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

// kernels/README.md, "exp64(x)" and "exp32(x)".
inline double text_exp(double x) {
  static constexpr double kP[] = {0x1.555555555553ep-3, -0x1.6c16c16bebd93p-9, 0x1.1566aaf25de2cp-14,
                                  -0x1.bbd41c5d26bf1p-20, 0x1.6376972bea4d0p-25};
  if (std::isnan(x)) return x;
  if (x > 0x1.62e42fefa39efp+9) return std::numeric_limits<double>::infinity();
  if (x < -0x1.74910d52d3051p+9) return 0;
  const auto k = static_cast<int>(x * 0x1.71547652b82fep+0 + (x >= 0 ? 0.5 : -0.5));
  const double kd = k, hi = x - kd * 0x1.62e42feep-1, lo = kd * 0x1.a39ef35793c76p-33;
  const double r = hi - lo, z = r * r;
  double p = kP[4];
  for (int i = 3; i >= 0; --i) p = kP[i] + z * p;
  const double c = r - z * p;
  return std::ldexp(1 - ((lo - (r * c) / (2 - c)) - hi), k);
}
inline float text_exp(float x) {
  return static_cast<float>(text_exp(static_cast<double>(x)));
}

// kernels/README.md, "tan64(a)" and "tan32(a)": the angle is in [-pi/2, pi/2].
inline double text_tan(double a) {
  const double q = std::floor(a * 0x1.45f306dc9c883p-1 + 0.5);
  const double r = (a - q * 0x1.921fb54442d18p+0) - q * 0x1.1a62633145c07p-54;
  const auto turn = turned(text_polynomials(r), static_cast<int64_t>(q) + 4);
  return turn.sine / turn.cosine;
}
inline float text_tan(float a) {
  return static_cast<float>(text_tan(static_cast<double>(a)));
}

// Standard normal values of one curand4: lanes in order.
template <class Acc>
auto normal_values(const Words& w) {
  if constexpr (std::is_same_v<Acc, double>) {
    const double v = std::fma(static_cast<double>(mantissa_bits(w[2], w[3])), 0x1p-52, 0x1p-53);
    const double s = std::sqrt(-2.0 * text_log(unit_double(w[0], w[1])));
    const auto q = static_cast<int64_t>(2 * v + 0.5);
    const double r = (v - 0.5 * static_cast<double>(q)) * 0x1.921fb54442d18p+1;
    const auto turn = turned(text_polynomials(r), q);
    return std::array<double, 2>{turn.sine * s, turn.cosine * s};
  } else {
    std::array<float, 4> values{};
    for (size_t pair = 0; pair < 4; pair += 2) {
      const float s = std::sqrt(-2.0F * text_log(unit_float(w[pair])));
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
