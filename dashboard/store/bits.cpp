// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/bits.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace lockstep::dashboard {

namespace {
double half_value(uint16_t bits) {
  const double sign = (bits & 0x8000) ? -1 : 1;
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31) return fraction ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

int width_of(std::string_view dtype) {
  if (dtype == "f32" || dtype == "i32") return 4;
  if (dtype == "bf16" || dtype == "f16" || dtype == "i16") return 2;
  if (dtype == "i8" || dtype == "u8" || dtype == "bool") return 1;
  return 8;
}
}  // namespace

double value_of(uint64_t bits, std::string_view dtype) {
  if (dtype == "f64") return std::bit_cast<double>(bits);
  if (dtype == "f32") return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (dtype == "bf16") return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  if (dtype == "f16") return half_value(static_cast<uint16_t>(bits));
  if (dtype == "i64") return static_cast<double>(static_cast<int64_t>(bits));
  if (dtype == "i32") return static_cast<int32_t>(bits);
  if (dtype == "i16") return static_cast<int16_t>(bits);
  if (dtype == "i8") return static_cast<int8_t>(bits);
  return static_cast<double>(bits);
}

std::string shortest(uint64_t bits, std::string_view dtype) {
  if (dtype == "i64") return std::to_string(static_cast<int64_t>(bits));
  const double value = value_of(bits, dtype);
  if (std::isnan(value)) return "nan";
  char text[32];
  const auto end = dtype == "f64" ? std::to_chars(text, text + sizeof(text), value).ptr
                                  : std::to_chars(text, text + sizeof(text), static_cast<float>(value)).ptr;
  // The other integers have at most 32 bits and are whole in a double.
  return dtype.starts_with('i') || dtype.starts_with('u') ? std::to_string(static_cast<int64_t>(value))
                                                          : std::string(text, end);
}

std::string hex(uint64_t bits, std::string_view dtype) {
  const int width = width_of(dtype);
  if (width < 8) bits &= (uint64_t{1} << (8 * width)) - 1;
  char text[20];
  std::snprintf(text, sizeof(text), "0x%0*llx", 2 * width, static_cast<unsigned long long>(bits));
  return text;
}

std::string hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return text;
}

}  // namespace lockstep::dashboard
