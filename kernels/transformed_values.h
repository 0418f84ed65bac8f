// SPDX-License-Identifier: Apache-2.0
// Distributions made of a uniform or normal number and a function that the GPU only approximates: log-normal,
// exponential, Cauchy, geometric. README.md fixes the functions.
#pragma once
#include "kernels/exp_tan_math.h"
#include "kernels/philox_values.h"

namespace lockstep {

template <class A>
LOCKSTEP_HOST_DEVICE A log_of(A u) {
  if constexpr (std::is_same_v<A, double>)
    return log64(u);
  else
    return log32(u);
}

// log_normal_(mean, std).
template <class T>
struct LogNormalValue {
  using Value = T;
  using A = RandomAccumulator<T>;
  static constexpr int kLanes = kUniformLanes<A>;
  NormalValue<A> normal;
  LogNormalValue(double mean, double std) : normal(mean, std) {}
  LOCKSTEP_HOST_DEVICE T value(const PhiloxBlock& block, int lane) const {
    return static_cast<T>(exp_of(normal.value(block, lane)));
  }
};

// exponential_(rate): never 0, since a number that rounds to 1 counts as the one before it.
template <class T>
struct ExponentialValue {
  using Value = T;
  using A = RandomAccumulator<T>;
  static constexpr int kLanes = kUniformLanes<A>;
  static constexpr A kHalfUlp = std::numeric_limits<A>::epsilon() / 2;
  A factor;
  explicit ExponentialValue(double rate) : factor(A{-1} / static_cast<A>(rate)) {}
  LOCKSTEP_HOST_DEVICE T value(const PhiloxBlock& block, int lane) const {
    const A u = uniform_lane<A>(block, lane);
    const A logarithm = u >= A{1} - kHalfUlp ? -kHalfUlp : log_of(u);
    return static_cast<T>(factor * logarithm);
  }
};

// cauchy_(median, scale): in float32 the ends of the interval are cut off, where stock's tangent is infinite.
template <class T>
struct CauchyValue {
  using Value = T;
  using A = RandomAccumulator<T>;
  static constexpr int kLanes = kUniformLanes<A>;
  static constexpr A kEnd = std::numeric_limits<A>::epsilon();
  A median, scale;
  CauchyValue(double a, double b) : median(static_cast<A>(a)), scale(static_cast<A>(b)) {}
  LOCKSTEP_HOST_DEVICE T value(const PhiloxBlock& block, int lane) const {
    A u = uniform_lane<A>(block, lane);
    if constexpr (std::is_same_v<A, float>) u = u < kEnd ? kEnd : u > A{1} - kEnd ? A{1} - kEnd : u;
    const A angle = static_cast<A>(0x1.921fb54442d18p+1) * (u - A{0.5});
    return static_cast<T>(std::fma(tan_of(angle), scale, median));
  }
};

// geometric_(p): the number of trials up to the first success. Integers come by way of int64.
template <class T>
struct GeometricValue {
  using Value = T;
  using A = RandomAccumulator<T>;
  static constexpr int kLanes = kUniformLanes<A>;
  bool certain;  // p == 1: the first trial succeeds
  A log_failure;
  explicit GeometricValue(double p)
      : certain(static_cast<A>(p) == A{1}),
        log_failure(certain ? A{0} : static_cast<A>(log64(1.0 - static_cast<double>(static_cast<A>(p))))) {}
  LOCKSTEP_HOST_DEVICE T value(const PhiloxBlock& block, int lane) const {
    const A trials = certain ? A{1} : std::ceil(log_of(uniform_lane<A>(block, lane)) / log_failure);
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<int64_t>(trials));
    else
      return static_cast<T>(trials);
  }
};

}  // namespace lockstep
