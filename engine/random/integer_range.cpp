// SPDX-License-Identifier: Apache-2.0
#include "engine/random/integer_range.h"

#include <bit>
#include <limits>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "kernels/distribution.h"

namespace lockstep {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

// Bits of a floating dtype's significand; 0 for the others.
int digits(c10::ScalarType dtype) {
  int bits = 0;
  with_float_type(dtype, [&](auto type) { bits = std::numeric_limits<decltype(type)>::digits; });
  return bits;
}

// A conversion that overflows gives the lowest integer, as x86 does, on which the stock operator runs.
int64_t to_integer(double value) {
  return value >= 0x1p63 ? kLowest : static_cast<int64_t>(value);
}

// `value` in the floating dtype, and back.
int64_t rounded(c10::ScalarType dtype, int64_t value) {
  double result = 0;
  with_float_type(dtype, [&](auto type) {
    using T = decltype(type);
    result = static_cast<double>(static_cast<T>(static_cast<RandomAccumulator<T>>(value)));
  });
  return to_integer(result);
}

// How far apart values as large as `value` are in the dtype.
int64_t spacing(c10::ScalarType dtype, int64_t value) {
  const auto magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
  return int64_t{1} << (std::bit_width(magnitude) - digits(dtype));
}

int64_t moved_up(c10::ScalarType dtype, int64_t from) {
  const int64_t next = rounded(dtype, from + 1);
  return next < from ? next + spacing(dtype, from + 1) : from;
}
int64_t moved_down(c10::ScalarType dtype, int64_t to) {
  const int64_t last = rounded(dtype, to - 1);
  return last >= to ? last - spacing(dtype, to - 1) : to;
}

void check_bounds(c10::ScalarType dtype, int64_t from, int64_t last) {
  const auto [lowest, highest] = integer_limits(dtype);
  LOCKSTEP_CHECK(lowest <= from && from <= highest && lowest <= last && last <= highest, "[aten::random_] ",
                 from, " to ", last, " does not fit into ", dtype_name(dtype), ", which holds ", lowest,
                 " to ", highest, "; draw as i64 and cast");
}

}  // namespace

int64_t largest_exact_integer(c10::ScalarType dtype) {
  if (const int bits = digits(dtype); bits > 0) return int64_t{1} << bits;
  int64_t largest = 0;
  const bool known = with_type_of<int64_t, int32_t, int16_t, int8_t, uint8_t, bool>(
      dtype, [&](auto type) { largest = std::numeric_limits<decltype(type)>::max(); });
  LOCKSTEP_CHECK(known, "[aten::random_] cannot fill a tensor of ", dtype_name(dtype));
  return largest;
}

std::pair<int64_t, int64_t> integer_limits(c10::ScalarType dtype) {
  if (dtype == c10::ScalarType::Half) return {-65504, 65504};
  if (digits(dtype) > 0 || dtype == c10::ScalarType::Long) return {kLowest, kHighest};
  const int64_t largest = largest_exact_integer(dtype);
  const bool is_signed = c10::isSignedType(dtype);
  return {is_signed ? -largest - 1 : 0, largest};
}

IntegerRange integer_range(c10::ScalarType dtype, int64_t from, std::optional<int64_t> to) {
  const bool floating = digits(dtype) > 0;
  if (!to && from == kLowest) {
    const bool served = dtype == c10::ScalarType::Long || (floating && dtype != c10::ScalarType::Half);
    LOCKSTEP_CHECK(served, "[aten::random_] all 64 bits into ", dtype_name(dtype),
                   ", which stock does not fill so; use i64, f64, f32 or bf16");
    return {RandomKind::kRandomBits, 0, 0};
  }
  LOCKSTEP_CHECK(!to || from < *to, "[aten::random_] the range [", from, ", ", to.value_or(0),
                 ") is empty; give from < to");
  if (floating) {
    from = moved_up(dtype, from);
    if (to) to = moved_down(dtype, *to);
  }
  const int64_t last = to ? *to - 1 : largest_exact_integer(dtype);
  LOCKSTEP_CHECK(from <= last, "[aten::random_] no integer from ", from, " to ", last, " fits into ",
                 dtype_name(dtype), "; widen the range, or draw as i64 and cast");
  check_bounds(dtype, from, last);
  return {RandomKind::kRandint, from, static_cast<int64_t>(static_cast<uint64_t>(last) + 1)};
}

}  // namespace lockstep
