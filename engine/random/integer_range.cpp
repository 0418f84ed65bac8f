// SPDX-License-Identifier: Apache-2.0
#include "engine/random/integer_range.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <bit>
#include <limits>

#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

// Bits of a floating dtype's significand; 0 for the others.
int digits(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Double:
      return 53;
    case c10::ScalarType::Float:
      return 24;
    case c10::ScalarType::Half:
      return 11;
    case c10::ScalarType::BFloat16:
      return 8;
    default:
      return 0;
  }
}

// A conversion that overflows gives the lowest integer, as x86 does, on which the stock operator runs.
int64_t to_integer(double value) {
  return value >= 0x1p63 ? kLowest : static_cast<int64_t>(value);
}

// `value` in the floating dtype, and back.
int64_t rounded(c10::ScalarType dtype, int64_t value) {
  if (dtype == c10::ScalarType::Double) return to_integer(static_cast<double>(value));
  const auto narrow = static_cast<float>(value);
  if (dtype == c10::ScalarType::Half) return to_integer(static_cast<double>(c10::Half(narrow)));
  if (dtype == c10::ScalarType::BFloat16) return to_integer(static_cast<double>(c10::BFloat16(narrow)));
  return to_integer(static_cast<double>(narrow));
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
  switch (dtype) {
    case c10::ScalarType::Long:
      return kHighest;
    case c10::ScalarType::Int:
      return std::numeric_limits<int32_t>::max();
    case c10::ScalarType::Short:
      return std::numeric_limits<int16_t>::max();
    case c10::ScalarType::Char:
      return std::numeric_limits<int8_t>::max();
    case c10::ScalarType::Byte:
      return std::numeric_limits<uint8_t>::max();
    case c10::ScalarType::Bool:
      return 1;
    default:
      throw Error(concat("[aten::random_] cannot fill a tensor of ", dtype_name(dtype)));
  }
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
