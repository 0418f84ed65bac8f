// SPDX-License-Identifier: Apache-2.0
// Magnitude: what the integer lane knows of a value. Each element, and each partial sum on the way to it in
// whatever order, is k * 2^-fraction with |k * 2^-fraction| <= bound. Where exact(dtype) holds, every order
// gives the same bits.
#pragma once
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lockstep::generators {

struct Magnitude {
  double bound = 1;
  int64_t fraction = 0;
};

inline Magnitude operator+(Magnitude a, Magnitude b) {
  return {a.bound + b.bound, std::max(a.fraction, b.fraction)};
}
inline Magnitude operator*(Magnitude a, Magnitude b) {
  return {a.bound * b.bound, a.fraction + b.fraction};
}
inline Magnitude larger(Magnitude a, Magnitude b) {
  return {std::max(a.bound, b.bound), std::max(a.fraction, b.fraction)};
}
// The magnitude of the number itself: 3, 0.5. @pre x is a multiple of 2^-20
inline Magnitude magnitude_of(double x) {
  int64_t fraction = 0;
  while (fraction < 20 &&
         std::ldexp(x, static_cast<int>(fraction)) != std::rint(std::ldexp(x, static_cast<int>(fraction))))
    ++fraction;
  return {std::max(std::abs(x), 1.0), fraction};
}
// One part in `n` of it: exact only for powers of two.
inline Magnitude over_power_of_two(Magnitude a, int64_t n) {
  return {a.bound, a.fraction + static_cast<int64_t>(std::log2(static_cast<double>(n)))};
}

// The integers up to which the dtype holds every one.
inline double integer_limit(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Double:
      return 9007199254740992.0;
    case c10::ScalarType::Float:
      return 16777216.0;
    case c10::ScalarType::Half:
      return 2048.0;
    case c10::ScalarType::BFloat16:
      return 256.0;
    default:
      return 4611686018427387904.0;
  }
}
inline bool exact(Magnitude m, c10::ScalarType dtype) {
  return std::ldexp(m.bound, static_cast<int>(std::min<int64_t>(m.fraction, 60))) < integer_limit(dtype);
}

}  // namespace lockstep::generators
