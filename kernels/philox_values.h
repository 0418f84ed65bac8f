// SPDX-License-Identifier: Apache-2.0
// From the words of a Philox block to values, as the stock CUDA kernels of libtorch 2.11 do it. A
// distribution is a functor: kLanes values come out of one block; value(block, lane) computes one of them.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/normal_math.h"
#include "kernels/philox.h"

namespace lockstep {

// The type that stock kernels compute in: double for double, float for everything else.
template <class T>
using RandomAccumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

// c10's conversion of an argument: bfloat16 and float16 round twice, by way of float.
template <class T>
LOCKSTEP_HOST_DEVICE T to_value(double argument) {
  return static_cast<T>(static_cast<RandomAccumulator<T>>(argument));
}

// curand_uniform: (0, 1]; 1 itself for 128 of the 2^32 words.
LOCKSTEP_HOST_DEVICE inline float uniform32(uint32_t word) {
  return std::fmaf(static_cast<float>(word), 0x1p-32f, 0x1p-33f);
}
LOCKSTEP_HOST_DEVICE inline uint64_t curand_bits53(uint32_t low, uint32_t high) {
  return uint64_t{low} ^ (uint64_t{high} << 21);
}
// curand_uniform2_double: (0, 1].
LOCKSTEP_HOST_DEVICE inline double uniform64(uint32_t low, uint32_t high) {
  return std::fma(static_cast<double>(curand_bits53(low, high)), 0x1p-53, 0x1p-54);
}

// Lane `lane` of a block as a uniform number of the accumulator type: 4 floats or 2 doubles a block.
template <class A>
LOCKSTEP_HOST_DEVICE A uniform_lane(const PhiloxBlock& block, int lane) {
  const auto i = static_cast<size_t>(lane);
  if constexpr (std::is_same_v<A, double>)
    return uniform64(block[2 * i], block[2 * i + 1]);
  else
    return uniform32(block[i]);
}
template <class A>
inline constexpr int kUniformLanes = std::is_same_v<A, double> ? 2 : 4;

// uniform_(from, to): the bounds and their difference are rounded to T first; a value that rounds up to `to`
// becomes `from`, so that the interval is [from, to).
template <class T>
struct UniformValue {
  using Value = T;
  using A = RandomAccumulator<T>;
  static constexpr int kLanes = kUniformLanes<A>;
  T from, to;
  A range;
  UniformValue(double a, double b)
      : from(to_value<T>(a)), to(to_value<T>(b)), range(static_cast<A>(static_cast<T>(to - from))) {}
  LOCKSTEP_HOST_DEVICE T value(const PhiloxBlock& block, int lane) const {
    const T v = static_cast<T>(std::fma(uniform_lane<A>(block, lane), range, static_cast<A>(from)));
    return static_cast<A>(v) == static_cast<A>(to) ? from : v;
  }
};

// Two standard normal values (sine first) out of words (x, y). README.md: not the bits of stock torch.cuda.
LOCKSTEP_HOST_DEVICE inline SinCos<float> normal_pair32(uint32_t x, uint32_t y) {
  const float s = std::sqrt(-2.0f * log32(uniform32(x)));
  const float angle =
      std::fmaf(static_cast<float>(y), std::bit_cast<float>(0x30c90fdbu), std::bit_cast<float>(0x30490fdbu));
  const SinCos<float> w = sincos32(angle);
  return {w.sin * s, w.cos * s};
}
LOCKSTEP_HOST_DEVICE inline SinCos<double> normal_pair64(const PhiloxBlock& block) {
  const double s = std::sqrt(-2.0 * log64(uniform64(block[0], block[1])));
  const double angle = std::fma(static_cast<double>(curand_bits53(block[2], block[3])), 0x1p-52, 0x1p-53);
  const SinCos<double> w = sincos64_pi(angle);
  return {w.sin * s, w.cos * s};
}

// normal_(mean, std).
template <class T>
struct NormalValue {
  using Value = T;
  using A = RandomAccumulator<T>;
  static constexpr int kLanes = kUniformLanes<A>;
  A mean, std;
  NormalValue(double a, double b) : mean(static_cast<A>(a)), std(static_cast<A>(b)) {}
  LOCKSTEP_HOST_DEVICE T scaled(A z) const { return static_cast<T>(std::fma(z, std, mean)); }
  LOCKSTEP_HOST_DEVICE SinCos<A> pair(const PhiloxBlock& block, int first) const {
    if constexpr (std::is_same_v<A, double>)
      return normal_pair64(block);
    else
      return normal_pair32(block[static_cast<size_t>(first)], block[static_cast<size_t>(first + 1)]);
  }
  LOCKSTEP_HOST_DEVICE T value(const PhiloxBlock& block, int lane) const {
    const SinCos<A> p = pair(block, lane & ~1);
    return scaled(lane % 2 == 0 ? p.sin : p.cos);
  }
};

// random_(low, high): `word % (high - low) + low`, where the difference is taken modulo 2^64 and 0 stands for
// 2^64. One word a value, or two, the first of them the higher half.
template <class T, int Lanes>
struct IntegerValue {
  static_assert(Lanes == 4 || Lanes == 2);
  using Value = T;
  static constexpr int kLanes = Lanes;
  uint64_t low, range;
  IntegerValue(int64_t from, int64_t to)
      : low(static_cast<uint64_t>(from)), range(static_cast<uint64_t>(to) - static_cast<uint64_t>(from)) {}
  LOCKSTEP_HOST_DEVICE T value(const PhiloxBlock& block, int lane) const {
    const auto i = static_cast<size_t>(lane);
    uint64_t word;
    if constexpr (Lanes == 4)
      word = block[i];
    else
      word = uint64_t{block[2 * i]} << 32 | block[2 * i + 1];
    const int64_t v = static_cast<int64_t>((range == 0 ? word : word % range) + low);
    if constexpr (std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>)
      return static_cast<T>(static_cast<float>(v));
    else
      return static_cast<T>(v);
  }
};

// bernoulli_(p) with a scalar p.
template <class T>
struct BernoulliValue {
  using Value = T;
  using A = RandomAccumulator<T>;
  static constexpr int kLanes = kUniformLanes<A>;
  A p;
  explicit BernoulliValue(double probability) : p(static_cast<A>(probability)) {}
  LOCKSTEP_HOST_DEVICE T value(const PhiloxBlock& block, int lane) const {
    const bool hit = uniform_lane<A>(block, lane) < p;
    if constexpr (std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>)
      return static_cast<T>(hit ? 1.0f : 0.0f);
    else
      return static_cast<T>(hit);
  }
};

// native_dropout's keep mask. The numbers are floats for every dtype; the probability to keep is a double for
// double.
template <class A>
struct KeepValue {
  using Value = bool;
  static constexpr int kLanes = 4;
  A keep;
  explicit KeepValue(double drop) : keep(static_cast<A>(1.0 - drop)) {}
  LOCKSTEP_HOST_DEVICE bool value(const PhiloxBlock& block, int lane) const {
    return static_cast<A>(uniform32(block[static_cast<size_t>(lane)])) < keep;
  }
};

// The uniform number itself, (0, 1], always of one word: what bernoulli_ compares with a tensor of
// probabilities, and multinomial with cumulative ones.
template <class T>
struct UniformWord {
  using Value = T;
  static constexpr int kLanes = 4;
  LOCKSTEP_HOST_DEVICE T value(const PhiloxBlock& block, int lane) const {
    return static_cast<T>(uniform32(block[static_cast<size_t>(lane)]));
  }
};

// rrelu's slope in training: rounded to T, then stretched in double by one fma, as the compiler made it.
template <class T>
struct SlopeValue {
  using Value = T;
  using A = RandomAccumulator<T>;
  static constexpr int kLanes = kUniformLanes<A>;
  double lower, range;
  SlopeValue(double from, double to) : lower(from), range(to - from) {}
  LOCKSTEP_HOST_DEVICE T value(const PhiloxBlock& block, int lane) const {
    const T u = static_cast<T>(uniform_lane<A>(block, lane));
    const double slope = std::fma(static_cast<double>(u), range, lower);
    return static_cast<T>(static_cast<A>(slope));
  }
};

}  // namespace lockstep
