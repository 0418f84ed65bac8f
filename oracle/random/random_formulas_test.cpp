// SPDX-License-Identifier: Apache-2.0
// The functions fixed in kernels/README.md are what their names say, to the last places, over their range.
#include "oracle/random/random_formulas.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::oracle {
namespace {

// Distance in units of the last place of `exact`.
template <class T>
double ulps(T value, long double exact) {
  const T next = std::nextafter(static_cast<T>(std::fabs(exact)), std::numeric_limits<T>::infinity());
  const auto unit =
      static_cast<long double>(next) - static_cast<long double>(static_cast<T>(std::fabs(exact)));
  return static_cast<double>(std::fabs(static_cast<long double>(value) - exact) / unit);
}

// Would catch: a coefficient copied wrongly, a sign or the power of two lost.
TEST(RandomFormulas, Exponential) {
  for (double x = -708; x < 709; x += 0.37)
    EXPECT_LT(ulps(text_exp(x), std::exp(static_cast<long double>(x))), 1) << x;
  for (float x = -87; x < 88; x += 0.13F)
    EXPECT_LE(ulps(text_exp(x), std::exp(static_cast<long double>(x))), .5001) << x;
  EXPECT_EQ(text_exp(0.0), 1);
  EXPECT_EQ(text_exp(710.0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(text_exp(-746.0), 0);
  EXPECT_EQ(text_exp(-0x1.74910d52d3051p+9), 0x1p-1074);  // the least number, rounded once
  EXPECT_EQ(text_exp(89.0F), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(text_exp(std::numeric_limits<double>::quiet_NaN())));
}

// Would catch: quadrants exchanged near the ends, a cotangent.
TEST(RandomFormulas, Tangent) {
  for (double a = -1.57; a < 1.57; a += 0.00171) {
    EXPECT_LT(ulps(text_tan(a), std::tan(static_cast<long double>(a))), 4) << a;
    const auto f = static_cast<float>(a);
    EXPECT_LE(ulps(text_tan(f), std::tan(static_cast<long double>(f))), .5001) << a;
  }
  EXPECT_EQ(text_tan(0.0), 0);
  EXPECT_GT(text_tan(0x1.921fb54442d18p+0), 1e16);
  EXPECT_LT(text_tan(-0x1.921fb54442d18p+0), -1e16);
}

// Would catch: a coefficient copied wrongly, a wrong split between exponent and mantissa.
TEST(RandomFormulas, Logarithm) {
  for (uint32_t w = 1; w < 4000000000U; w += 654321) {
    const float u = unit_float(w);
    EXPECT_LT(ulps(text_log(u), std::log(static_cast<long double>(u))), 1) << u;
    const double d = unit_double(w, w * 5 & 0x1fffff);
    EXPECT_LT(ulps(text_log(d), std::log(static_cast<long double>(d))), 1) << d;
  }
  EXPECT_EQ(text_log(1.0F), 0);
  EXPECT_EQ(text_log(1.0), 0);
  EXPECT_NEAR(text_log(0x1p-54), -54 * std::log(2.0), 1e-14);
}

}  // namespace
}  // namespace lockstep::oracle
