// SPDX-License-Identifier: Apache-2.0
#include "oracle/random/random_support.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include <c10/util/Half.h>

#include "engine/values/error.h"
#include "engine/values/spec.h"
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

struct Bounds {
  double low, high;
};
template <class T>
Bounds bounds() {
  return {static_cast<double>(std::numeric_limits<T>::lowest()),
          static_cast<double>(std::numeric_limits<T>::max())};
}
Bounds bounds_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half:
      return bounds<c10::Half>();
    case ScalarType::Int:
      return bounds<int32_t>();
    case ScalarType::Short:
      return bounds<int16_t>();
    case ScalarType::Char:
      return bounds<int8_t>();
    case ScalarType::Byte:
      return bounds<uint8_t>();
    case ScalarType::Bool:
      return bounds<bool>();
    default:  // any 64-bit integer fits
      return bounds<float>();
  }
}

// The first and the last integer of a range lie within the dtype's. The end may have wrapped past the largest
// int64; all 2^64 integers are another kernel's.
void check_range(const RandomCall& call) {
  const auto last = static_cast<int64_t>(static_cast<uint64_t>(call.high) - 1);
  LOCKSTEP_CHECK(call.low != call.high && call.low <= last, "[aten::random_] the range from ", call.low,
                 " to ", call.high, " is empty; give from < to");
  const auto [low, high] = bounds_of(call.dtype);
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

}  // namespace

std::string_view name_of(RandomKind kind) {
  switch (kind) {
    case RandomKind::kUniform:
      return "aten::uniform_";
    case RandomKind::kNormal:
      return "aten::normal_";
    case RandomKind::kLogNormal:
      return "aten::log_normal_";
    case RandomKind::kExponential:
      return "aten::exponential_";
    case RandomKind::kCauchy:
      return "aten::cauchy_";
    case RandomKind::kGeometric:
      return "aten::geometric_";
    case RandomKind::kBernoulli:
      return "aten::bernoulli_";
    case RandomKind::kBernoulliUniform:
      return "aten::bernoulli_.Tensor";
    case RandomKind::kRandint:
    case RandomKind::kRandom:
    case RandomKind::kRandomBits:
      return "aten::random_";
    case RandomKind::kRandperm:
      return "aten::randperm";
    case RandomKind::kDropoutMask:
      return "aten::native_dropout";
    case RandomKind::kRreluNoise:
      return "aten::rrelu_with_noise";
    case RandomKind::kMultinomialUniform:
      return "aten::multinomial";
  }
  throw Broken(concat("[random] no kind has the number ", static_cast<int>(kind)));
}

uint64_t exact_integers(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Double:
      return (uint64_t{1} << 53) + 1;
    case ScalarType::Float:
      return (uint64_t{1} << 24) + 1;
    case ScalarType::Half:
      return (uint64_t{1} << 11) + 1;
    case ScalarType::BFloat16:
      return (uint64_t{1} << 8) + 1;
    case ScalarType::Bool:
      return 2;
    case ScalarType::Byte:
      return 256;
    default:  // as many as a signed integer has that are not negative
      return uint64_t{1} << (8 * c10::elementSize(dtype) - 1);
  }
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
