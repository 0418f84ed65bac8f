// SPDX-License-Identifier: Apache-2.0
#include "oracle/random/random_support.h"

#include <c10/util/BFloat16-math.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/ownership/dtypes.h"
#include "oracle/random/random_kernels.h"
#include "oracle/random/random_permutation.h"

namespace lockstep::oracle {
namespace {

using c10::ScalarType;

bool is_one_of(ScalarType dtype, std::initializer_list<ScalarType> dtypes) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}
bool is_real(ScalarType dtype) {
  return is_one_of(dtype, {ScalarType::Double, ScalarType::Float, ScalarType::Half, ScalarType::BFloat16});
}
bool is_whole(ScalarType dtype) {
  return is_one_of(
      dtype, {ScalarType::Long, ScalarType::Int, ScalarType::Short, ScalarType::Char, ScalarType::Byte});
}

// The dtypes for which stock instantiates the kernel.
bool dispatches(RandomKind kind, ScalarType dtype) {
  switch (kind) {
    case RandomKind::kRandint:
    case RandomKind::kRandom:
    case RandomKind::kBernoulli:
      return is_real(dtype) || is_whole(dtype) || dtype == ScalarType::Bool;
    case RandomKind::kGeometric:
      return is_real(dtype) || is_whole(dtype);
    case RandomKind::kRandomBits:
      return is_one_of(dtype,
                       {ScalarType::Long, ScalarType::Double, ScalarType::Float, ScalarType::BFloat16});
    case RandomKind::kRandperm:
      return is_whole(dtype) || (is_real(dtype) && dtype != ScalarType::BFloat16);
    case RandomKind::kBernoulliUniform:  // the dtype in which probabilities are compared
      return is_one_of(dtype, {ScalarType::Double, ScalarType::Float});
    case RandomKind::kMultinomialUniform:  // the kernel's numbers, before they are rounded to the weights'
                                           // dtype
      return dtype == ScalarType::Float;
    default:
      return is_real(dtype);
  }
}

// The lowest and the largest number of a dtype.
std::pair<double, double> limits_of(ScalarType dtype) {
  return with_type(dtype, []<class T>() {
    using Limits = std::numeric_limits<T>;
    return std::pair(static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max()));
  });
}

// The first and the last integer of a range lie within the dtype's. The end may have wrapped past the largest
// int64; all 2^64 integers are another kernel's.
void check_range(const RandomCall& call) {
  const auto last = static_cast<int64_t>(static_cast<uint64_t>(call.high) - 1);
  LOCKSTEP_CHECK(call.low != call.high && call.low <= last, "[aten::random_] the range from ", call.low,
                 " to ", call.high, " is empty; give from < to");
  const auto [low, high] = limits_of(call.dtype);
  LOCKSTEP_CHECK(static_cast<double>(call.low) >= low && static_cast<double>(last) <= high,
                 "[aten::random_] ", call.low, " to ", last, " is out of the bounds of ",
                 dtype_name(call.dtype), "; draw in int64 and convert");
}

// Of randperm: the largest n whose indices the dtype holds.
int64_t most_indices(ScalarType dtype) {
  const auto held = exact_integers(dtype);
  return static_cast<int64_t>(std::min<uint64_t>(held, std::numeric_limits<int64_t>::max()));
}

void check_permutation(const RandomCall& call) {
  LOCKSTEP_CHECK(call.shape.size() == 1, "[aten::randperm] a permutation has one dimension, not ",
                 call.shape.size());
  const int64_t n = call.shape[0];
  LOCKSTEP_CHECK(n <= most_indices(call.dtype), "[aten::randperm] ", dtype_name(call.dtype),
                 " does not hold ", n, " indices; use int64");
  LOCKSTEP_CHECK(permutation_bits(n) < 64, "[aten::randperm] ", n,
                 " indices need keys of 64 bits, which stock cannot mask; use fewer");
}

void check_multinomial(const RandomCall& call) {
  LOCKSTEP_CHECK(call.shape.size() == 2, "[aten::multinomial] uniform numbers have the dimensions ",
                 "(distributions, samples), not ", call.shape.size());
  const int64_t threads = multinomial_rows(call.shape[0]) * ceil_divide(call.shape[1], 128) * 128;
  LOCKSTEP_CHECK(
      threads <= std::numeric_limits<int32_t>::max(), "[aten::multinomial] ", call.shape[1], " samples of ",
      call.shape[0],
      " distributions need more threads than stock numbers in 32 bits; draw fewer samples at once");
}

// ---- random_(from, to), whose bounds stock moves before it calls a kernel ----

using Integers = std::numeric_limits<int64_t>;

// One past x, or one before it, where integers wrap.
int64_t after(int64_t x) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) + 1);
}
int64_t before(int64_t x) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) - 1);
}

// The integer that x86 makes of a number: its lowest where it has none.
template <class T>
int64_t integer_of(T x) {
  const auto wide = static_cast<double>(x);
  return wide >= -0x1p63 && wide < 0x1p63 ? static_cast<int64_t>(wide) : Integers::min();
}

template <class T>
T nearest(int64_t x) {
  if constexpr (std::is_same_v<T, double>)
    return static_cast<double>(x);
  else
    return static_cast<T>(static_cast<float>(x));
}

// Stock asks what from + 1 and to - 1 become in the dtype, and steps to the dtype's next number inside if
// that is a number outside.
template <class T>
void move_inwards(int64_t& from, std::optional<int64_t>& to) {
  const T first = nearest<T>(after(from)), infinity = std::numeric_limits<T>::infinity();
  const bool overflows = first == infinity || first == -infinity;
  if (integer_of(first) < from)
    from = overflows ? Integers::min() : integer_of(std::nextafter(nearest<T>(integer_of(first)), infinity));
  if (!to) return;
  const T last = nearest<T>(before(*to));
  if (integer_of(last) >= *to) to = integer_of(std::nextafter(last, -infinity));
}

}  // namespace

std::string_view name_of(RandomKind kind) {
  using enum RandomKind;
  static constexpr std::pair<RandomKind, std::string_view> kNames[] = {
      {kUniform, "aten::uniform_"},
      {kNormal, "aten::normal_"},
      {kLogNormal, "aten::log_normal_"},
      {kExponential, "aten::exponential_"},
      {kCauchy, "aten::cauchy_"},
      {kGeometric, "aten::geometric_"},
      {kBernoulli, "aten::bernoulli_"},
      {kBernoulliUniform, "aten::bernoulli_.Tensor"},
      {kRandint, "aten::random_"},
      {kRandom, "aten::random_"},
      {kRandomBits, "aten::random_"},
      {kRandperm, "aten::randperm"},
      {kDropoutMask, "aten::native_dropout"},
      {kRreluNoise, "aten::rrelu_with_noise"},
      {kMultinomialUniform, "aten::multinomial"}};
  for (const auto& [known, name] : kNames)
    if (known == kind) return name;
  throw Broken(concat("[random] no kind has the number ", static_cast<int>(kind)));
}

uint64_t exact_integers(ScalarType dtype) {
  return with_type(dtype, []<class T>() {
    using Limits = std::numeric_limits<T>;
    return (uint64_t{1} << Limits::digits) + (Limits::is_integer ? 0 : 1);
  });
}

Bounds bounds_of_random(ScalarType dtype, int64_t from, std::optional<int64_t> to) {
  if (!to && from == Integers::min()) {
    LOCKSTEP_CHECK(dtype == ScalarType::Long || (c10::isFloatingType(dtype) && dtype != ScalarType::Half),
                   "[aten::random_] stock does not fill ", dtype_name(dtype),
                   " with all 64 bits; use i64, f64, f32 or bf16");
    return {true, 0, 0};
  }
  LOCKSTEP_CHECK(!to || from < *to, "[aten::random_] the range from ", from, " to ", to.value_or(0),
                 " is empty; give from < to");
  if (c10::isFloatingType(dtype)) with_float(dtype, [&]<class T>() { move_inwards<T>(from, to); });
  return {false, from, to ? *to : static_cast<int64_t>(exact_integers(dtype))};
}

void check_supported(const RandomCall& call) {
  // randperm(0) is done before its kernels, for any dtype that counts.
  if (call.kind == RandomKind::kRandperm && call.dtype != ScalarType::Bool && numel(call) == 0) return;
  LOCKSTEP_CHECK(dispatches(call.kind, call.dtype), "[", name_of(call.kind),
                 "] stock CUDA has no kernel for ", dtype_name(call.dtype),
                 "; draw in another dtype and convert");
  switch (call.kind) {
    case RandomKind::kRandint:
      return check_range(call);
    case RandomKind::kBernoulliUniform:
      LOCKSTEP_CHECK(is_dense(call),
                     "[aten::bernoulli_.Tensor] strides with gaps do not say how the operands ",
                     "order their elements; give those of a dense tensor in that order");
      return;
    case RandomKind::kRandperm:
      return check_permutation(call);
    case RandomKind::kMultinomialUniform:
      return check_multinomial(call);
    case RandomKind::kRreluNoise:
      LOCKSTEP_CHECK(numel(call) <= std::numeric_limits<int32_t>::max(), "[aten::rrelu_with_noise] ",
                     numel(call), " elements; stock counts them in 32 bits. Use a smaller tensor");
      return;
    default:
      return;
  }
}

}  // namespace lockstep::oracle
