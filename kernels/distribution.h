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
  Values values;
  c10::ScalarType dtype;
  double a, b;
  int64_t low, high;
};

// Values that a block gives: 4 or 2.
int lanes_of(const Distribution& distribution);

// Calls f with a value of the type that the dtype names; false: it is none of these.
template <class... T, class F>
bool with_type_of(c10::ScalarType dtype, const F& f) {
  return ((dtype == c10::CppTypeToScalarType<T>::value && (f(T{}), true)) || ...);
}
bool with_float_type(c10::ScalarType dtype, const auto& f) {
  return with_type_of<double, float, c10::BFloat16, c10::Half>(dtype, f);
}
bool with_number_type(c10::ScalarType dtype, const auto& f) {
  return with_float_type(dtype, f) || with_type_of<int64_t, int32_t, int16_t, int8_t, uint8_t>(dtype, f);
}
bool with_any_type(c10::ScalarType dtype, const auto& f) {
  return with_number_type(dtype, f) || with_type_of<bool>(dtype, f);
}

// Calls f with the functor of the distribution; false: there is none of its dtype.
template <class F>
bool with_values(const Distribution& d, const F& f) {
  const auto floats = [&]<template <class> class G>(auto... arguments) {
    return with_float_type(d.dtype, [&](auto t) { f(G<decltype(t)>(arguments...)); });
  };
  switch (d.values) {
    case Values::kUniform:
      return floats.template operator()<UniformValue>(d.a, d.b);
    case Values::kNormal:
      return floats.template operator()<NormalValue>(d.a, d.b);
    case Values::kLogNormal:
      return floats.template operator()<LogNormalValue>(d.a, d.b);
    case Values::kCauchy:
      return floats.template operator()<CauchyValue>(d.a, d.b);
    case Values::kSlope:
      return floats.template operator()<SlopeValue>(d.a, d.b);
    case Values::kExponential:
      return floats.template operator()<ExponentialValue>(d.a);
    case Values::kUniformWord:
      return floats.template operator()<UniformWord>();
    case Values::kGeometric:
      return with_number_type(d.dtype, [&](auto t) { f(GeometricValue<decltype(t)>(d.a)); });
    case Values::kBernoulli:
      return with_any_type(d.dtype, [&](auto t) { f(BernoulliValue<decltype(t)>(d.a)); });
    case Values::kKeep:
      d.dtype == c10::kDouble ? f(KeepValue<double>(d.a)) : f(KeepValue<float>(d.a));
      return true;
    case Values::kInteger:
      return with_any_type(d.dtype, [&](auto t) { f(IntegerValue<decltype(t), 4>(d.low, d.high)); });
    case Values::kInteger64:
      return with_any_type(d.dtype, [&](auto t) { f(IntegerValue<decltype(t), 2>(d.low, d.high)); });
  }
  return false;
}

}  // namespace lockstep
