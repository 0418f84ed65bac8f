// SPDX-License-Identifier: Apache-2.0
// Distribution: which values to draw, as data; the functors of philox_values.h and transformed_values.h by
// name and dtype. The only list of them: CPU and GPU fill from it.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>

#include "kernels/transformed_values.h"

namespace lockstep {

enum class Values {
  kUniform,      // a, b: from, to
  kNormal,       // a, b: mean, standard deviation
  kLogNormal,    // likewise, of the logarithm
  kCauchy,       // a, b: median, scale
  kSlope,        // a, b: lower, upper
  kExponential,  // a: rate
  kGeometric,    // a: p
  kBernoulli,    // a: p
  kUniformWord,
  kKeep,       // a: p to drop; a mask, dtype is that of the input
  kInteger,    // low, high: of one word
  kInteger64,  // low, high: of two words
};

struct Distribution {
  Values values = Values::kUniform;
  c10::ScalarType dtype = c10::ScalarType::Float;
  double a = 0, b = 1;
  int64_t low = 0, high = 0;
};

// Values that a block gives: 4 or 2.
int lanes_of(const Distribution& distribution);

namespace detail {

template <class F>
bool with_float_functor(const Distribution& d, const F& f, auto make) {
  switch (d.dtype) {
    case c10::kDouble:
      return f(make(double{})), true;
    case c10::kFloat:
      return f(make(float{})), true;
    case c10::kBFloat16:
      return f(make(c10::BFloat16{})), true;
    case c10::kHalf:
      return f(make(c10::Half{})), true;
    default:
      return false;
  }
}

template <class F>
bool with_number_functor(const Distribution& d, const F& f, auto make) {
  switch (d.dtype) {
    case c10::kLong:
      return f(make(int64_t{})), true;
    case c10::kInt:
      return f(make(int32_t{})), true;
    case c10::kShort:
      return f(make(int16_t{})), true;
    case c10::kChar:
      return f(make(int8_t{})), true;
    case c10::kByte:
      return f(make(uint8_t{})), true;
    default:
      return with_float_functor(d, f, make);
  }
}

template <class F>
bool with_any_functor(const Distribution& d, const F& f, auto make) {
  if (d.dtype == c10::kBool) return f(make(bool{})), true;
  return with_number_functor(d, f, make);
}

}  // namespace detail

// Calls f with the functor of floating values; false: this list has none.
template <class F>
bool with_float_values(const Distribution& d, const F& f) {
  const auto of = [&]<template <class> class G>() {
    return detail::with_float_functor(d, f, [&](auto t) { return G<decltype(t)>(d.a, d.b); });
  };
  switch (d.values) {
    case Values::kUniform:
      return of.template operator()<UniformValue>();
    case Values::kNormal:
      return of.template operator()<NormalValue>();
    case Values::kLogNormal:
      return of.template operator()<LogNormalValue>();
    case Values::kCauchy:
      return of.template operator()<CauchyValue>();
    case Values::kSlope:
      return of.template operator()<SlopeValue>();
    case Values::kExponential:
      return detail::with_float_functor(d, f, [&](auto t) { return ExponentialValue<decltype(t)>(d.a); });
    case Values::kUniformWord:
      return detail::with_float_functor(d, f, [](auto t) { return UniformWord<decltype(t)>(); });
    default:
      return false;
  }
}

// Likewise of counts, masks and integers.
template <class F>
bool with_counted_values(const Distribution& d, const F& f) {
  switch (d.values) {
    case Values::kGeometric:
      return detail::with_number_functor(d, f, [&](auto t) { return GeometricValue<decltype(t)>(d.a); });
    case Values::kBernoulli:
      return detail::with_any_functor(d, f, [&](auto t) { return BernoulliValue<decltype(t)>(d.a); });
    case Values::kKeep:
      if (d.dtype == c10::kDouble)
        f(KeepValue<double>(d.a));
      else
        f(KeepValue<float>(d.a));
      return true;
    case Values::kInteger:
      return detail::with_any_functor(d, f,
                                      [&](auto t) { return IntegerValue<decltype(t), 4>(d.low, d.high); });
    case Values::kInteger64:
      return detail::with_any_functor(d, f,
                                      [&](auto t) { return IntegerValue<decltype(t), 2>(d.low, d.high); });
    default:
      return false;
  }
}

}  // namespace lockstep
