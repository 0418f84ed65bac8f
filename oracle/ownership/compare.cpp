// SPDX-License-Identifier: Apache-2.0
#include "oracle/ownership/compare.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/ownership/dtypes.h"
#include "oracle/ownership/in_host.h"
#include "oracle/ownership/share.h"

namespace lockstep::oracle {
namespace {

constexpr auto kMaxUlp = std::numeric_limits<int64_t>::max();
constexpr auto kInfinity = std::numeric_limits<double>::infinity();

// How a dtype's elements are read: as words of `bytes`; floats also by the width of their fraction.
struct Format {
  int bytes;
  int fraction_bits;  // 0: not a float
};
Format format_of(c10::ScalarType dtype) {
  return {static_cast<int>(c10::elementSize(dtype)),
          c10::isFloatingType(dtype) ? precision_of(dtype) - 1 : 0};
}

uint64_t sign_bit(const Format& f) {
  return uint64_t{1} << (8 * f.bytes - 1);
}
uint64_t exponent_mask(const Format& f) {
  return sign_bit(f) - (uint64_t{1} << f.fraction_bits);
}
bool is_nan(uint64_t bits, const Format& f) {
  return (bits & (sign_bit(f) - 1)) > exponent_mask(f);
}
bool is_finite(uint64_t bits, const Format& f) {
  return (bits & exponent_mask(f)) != exponent_mask(f);
}
bool is_zero(uint64_t bits, const Format& f) {
  return (bits & (sign_bit(f) - 1)) == 0;
}

// Distance in the map of floats to integers that keeps their order and takes both zeros to 0.
int64_t distance(uint64_t a, uint64_t b, const Format& f) {
  const uint64_t magnitude = sign_bit(f) - 1, x = a & magnitude, y = b & magnitude;
  const bool same_sign = ((a ^ b) & sign_bit(f)) == 0;
  const uint64_t apart = !same_sign ? x + y : x > y ? x - y : y - x;
  return apart > static_cast<uint64_t>(kMaxUlp) ? kMaxUlp : static_cast<int64_t>(apart);
}

uint64_t load(const unsigned char* bytes, int64_t i, int size) {
  uint64_t word = 0;
  std::memcpy(&word, bytes + i * size, static_cast<size_t>(size));
  return word;
}

double value_of(uint64_t bits, c10::ScalarType dtype) {
  if (dtype == c10::ScalarType::Bool) return static_cast<double>(bits);
  return with_type(dtype, [&]<class T>() {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<double>(value);
  });
}

uint64_t bits_of(double value, c10::ScalarType dtype) {
  return with_float(dtype, [&]<class T>() {
    const T rounded = c10::convert<T>(value);
    uint64_t bits = 0;
    std::memcpy(&bits, &rounded, sizeof rounded);
    return bits;
  });
}

BitClass classify(uint64_t expected, uint64_t actual, const Format& f, int64_t ulp_limit) {
  if (f.fraction_bits == 0) return BitClass::kValue;
  if (is_nan(expected, f) && is_nan(actual, f)) return BitClass::kNanPayload;
  if (is_zero(expected, f) && is_zero(actual, f)) return BitClass::kZeroSign;
  const bool near =
      is_finite(expected, f) && is_finite(actual, f) && distance(expected, actual, f) <= ulp_limit;
  return near ? BitClass::kUlp : BitClass::kValue;
}

// Adds one different element to what is known.
void note(Difference& d, uint64_t expected, uint64_t actual, c10::ScalarType dtype, const Format& f,
          int64_t ulp_limit) {
  const auto bits = classify(expected, actual, f, ulp_limit);
  d.bits = std::max(d.bits, bits);
  ++d.different;
  if (bits == BitClass::kNanPayload || bits == BitClass::kZeroSign) return;
  const double e = value_of(expected, dtype), a = value_of(actual, dtype);
  const double apart = std::abs(e - a);  // NaN: only one of them is a number, or infinities of one sign
  const double absolute = std::isnan(apart) ? kInfinity : apart;
  d.max_abs = std::max(d.max_abs, absolute);
  d.max_rel = std::max(d.max_rel, e == 0 || !std::isfinite(e) ? kInfinity : absolute / std::abs(e));
  if (f.fraction_bits == 0) return;
  const bool finite = is_finite(expected, f) && is_finite(actual, f);
  d.max_ulp = std::max(d.max_ulp, finite ? distance(expected, actual, f) : kMaxUlp);
}

void walk(Difference& d, const at::Tensor& expected, const at::Tensor& actual, int64_t ulp_limit) {
  const auto dtype = expected.scalar_type();
  const auto format = format_of(dtype);
  const auto* e = static_cast<const unsigned char*>(expected.const_data_ptr());
  const auto* a = static_cast<const unsigned char*>(actual.const_data_ptr());
  for (int64_t i = 0; i < d.elements; ++i) {
    const auto x = load(e, i, format.bytes), y = load(a, i, format.bytes);
    if (x == y) continue;
    if (d.different == 0) {
      d.first_index = unravel(i, expected.sizes());
      d.expected_bits = x;
      d.actual_bits = y;
      d.expected = value_of(x, dtype);
      d.actual = value_of(y, dtype);
    }
    note(d, x, y, dtype, format, ulp_limit);
  }
}

std::string hex(uint64_t bits, c10::ScalarType dtype) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%0*llx", 2 * format_of(dtype).bytes,
                static_cast<unsigned long long>(bits));
  return text;
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

const char* name(BitClass c) {
  static constexpr const char* kNames[] = {"equal", "sign of zero", "NaN payload", "ulp", "value", "shape"};
  return kNames[static_cast<size_t>(c)];
}

Difference compare(const at::Tensor& expected, const at::Tensor& actual, int64_t ulp_limit) {
  Difference d;
  if (!expected.defined() && !actual.defined()) return d;
  const bool comparable = expected.defined() && actual.defined() && expected.sizes() == actual.sizes() &&
                          expected.scalar_type() == actual.scalar_type();
  if (!comparable) {
    d.bits = BitClass::kShape;
    d.elements = d.different = expected.defined() ? expected.numel() : actual.numel();
    return d;
  }
  d.elements = expected.numel();
  if (d.elements == 0) return d;
  const at::NoGradGuard no_grad;
  const auto e = in_host(expected).contiguous(), a = in_host(actual).contiguous();
  if (std::memcmp(e.const_data_ptr(), a.const_data_ptr(), e.nbytes()) != 0) walk(d, e, a, ulp_limit);
  return d;
}

std::string describe(const Difference& d, c10::ScalarType dtype) {
  if (d.equal()) return concat("equal, ", d.elements, " elements");
  if (d.bits == BitClass::kShape) return "shape, dtype or definedness differ";
  std::string at;
  for (const auto i : d.first_index) at += (at.empty() ? "" : ",") + std::to_string(i);
  std::string text =
      concat(name(d.bits), ": ", d.different, " of ", d.elements, " elements differ, first at [", at,
             "]: expected ", hex(d.expected_bits, dtype), " (", number(d.expected), "), got ",
             hex(d.actual_bits, dtype), " (", number(d.actual), ")");
  if (d.bits < BitClass::kUlp) return text;
  text += concat("; at most ", number(d.max_abs), " absolute, ", number(d.max_rel), " relative");
  if (d.max_ulp > 0) text += d.max_ulp == kMaxUlp ? ", not finite" : concat(", ", d.max_ulp, " ulp");
  return text;
}

int64_t ulp_distance(double expected, double actual, c10::ScalarType dtype) {
  const auto format = format_of(dtype);
  const auto e = bits_of(expected, dtype), a = bits_of(actual, dtype);
  if (is_nan(e, format) || is_nan(a, format)) return is_nan(e, format) && is_nan(a, format) ? 0 : kMaxUlp;
  return distance(e, a, format);
}

}  // namespace lockstep::oracle
