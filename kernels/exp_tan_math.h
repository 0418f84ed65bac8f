// SPDX-License-Identifier: Apache-2.0
// The fixed exponential and tangent of log-normal and Cauchy values. README.md states every operation; this
// file only spells it.
#pragma once
#include <cmath>
#include <limits>

#include "kernels/normal_math.h"

namespace lockstep {

// A NaN stays one.
LOCKSTEP_HOST_DEVICE inline double exp64(double x) {
  if (std::isnan(x)) return x;
  if (x > 0x1.62e42fefa39efp+9) return std::numeric_limits<double>::infinity();
  if (x < -0x1.74910d52d3051p+9) return 0.0;
  const int k = static_cast<int>(x * 0x1.71547652b82fep+0 + (x >= 0 ? 0.5 : -0.5));
  const double hi = x - k * 0x1.62e42feep-1;
  const double lo = k * 0x1.a39ef35793c76p-33;
  const double r = hi - lo, z = r * r;
  const double p = horner(z, 0x1.555555555553ep-3, -0x1.6c16c16bebd93p-9, 0x1.1566aaf25de2cp-14,
                          -0x1.bbd41c5d26bf1p-20, 0x1.6376972bea4d0p-25);
  const double c = r - z * p;
  return std::ldexp(1.0 - ((lo - (r * c) / (2.0 - c)) - hi), k);
}
// exp32 of a float, exp64 of a double.
template <class A>
LOCKSTEP_HOST_DEVICE A exp_of(A x) {
  return static_cast<A>(exp64(static_cast<double>(x)));
}

// Of an angle in [-pi/2, pi/2].
LOCKSTEP_HOST_DEVICE inline double tan64(double angle) {
  const int q = static_cast<int>(std::floor(angle * 0x1.45f306dc9c883p-1 + 0.5));
  const double r = (angle - q * 0x1.921fb54442d18p+0) - q * 0x1.1a62633145c07p-54;
  const SinCos<double> w = sincos_reduced(r, q);
  return w.sin / w.cos;
}
template <class A>
LOCKSTEP_HOST_DEVICE A tan_of(A angle) {
  return static_cast<A>(tan64(static_cast<double>(angle)));
}

}  // namespace lockstep
