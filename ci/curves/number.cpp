// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/number.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "dashboard/store/bits.h"

namespace lockstep::curves {
namespace {

// Significant digits, and digits after the point, of a decimal text that from_chars reads. Leading zeros are
// not significant; a text of zeros alone has one significant digit.
struct Shape {
  int digits = 0, decimals = 0;
};

// Empty for what begins as no number or has an exponent that no number needs.
std::optional<Shape> shape_of(std::string_view text) {
  if (text.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  const auto e = std::min(text.find_first_of("eE"), text.size());
  const auto point = std::min(text.find('.'), e);
  int exponent = 0;
  if (e < text.size()) {
    const char* from = text.data() + e + 1 + text.substr(e + 1).starts_with('+');
    const auto error = std::from_chars(from, text.data() + text.size(), exponent).ec;
    if (error != std::errc() || exponent < -100'000 || exponent > 100'000) return std::nullopt;
  }
  int digits = 0;
  for (const char c : text.substr(0, e)) digits += c != '.' && (digits > 0 || c != '0') ? 1 : 0;
  const int decimals = point < e ? static_cast<int>(e - point) - 1 : 0;
  return Shape{std::min(std::max(digits, 1), kNoDigits - 1), std::max(0, decimals - exponent)};
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (auto& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

template <class Float, class Bits>
std::optional<Number> read_as(std::string_view text, const char* dtype) {
  Float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return Number{std::bit_cast<Bits>(value), dtype, 0, 0};
}

size_t width_of(std::string_view dtype) {
  return dtype == "f64" ? 16 : dtype == "f32" ? 8 : dtype == "bf16" || dtype == "f16" ? 4 : 0;
}

}  // namespace

double Number::value() const {
  return dashboard::value_of(bits, dtype);
}

Number from_f32(uint32_t bits) {
  return {bits, "f32", 0, 0};
}

std::optional<Number> parse_decimal(std::string_view text, std::string_view round_trip) {
  auto body = text;
  const bool minus = body.starts_with('-');
  if (minus || body.starts_with('+')) body.remove_prefix(1);
  const auto word = lower(body);
  const bool is_nan = word == "nan", is_infinite = word == "inf" || word == "infinity";
  const bool f32 = round_trip == "f32";
  if (is_nan || is_infinite) {
    const float special = is_nan ? std::numeric_limits<float>::quiet_NaN() : HUGE_VALF;
    auto n = from_f32(std::bit_cast<uint32_t>(special) | (minus ? 0x80000000u : 0u));
    if (!f32) n = widened(n);
    if (round_trip.empty()) n.digits = kNoDigits;
    return n;
  }
  const auto shape = shape_of(body);
  if (!shape || body.starts_with('-')) return std::nullopt;
  auto n = f32 ? read_as<float, uint32_t>(body, "f32") : read_as<double, uint64_t>(body, "f64");
  if (!n) return n;
  if (minus) n->bits |= f32 ? uint64_t{0x80000000} : uint64_t{1} << 63;
  n->decimals = shape->decimals;
  if (round_trip.empty() && shape->digits < kDigitsOfF64) n->digits = shape->digits;
  return n;
}

std::optional<Number> parse_bits(std::string_view hex, std::string_view dtype) {
  if (hex.starts_with("0x") || hex.starts_with("0X")) hex.remove_prefix(2);
  if (dtype.empty()) dtype = hex.size() == 16 ? "f64" : hex.size() == 8 ? "f32" : "";
  if (dtype.empty() || hex.size() != width_of(dtype)) return std::nullopt;
  uint64_t bits = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16);
  if (error != std::errc() || end != hex.data() + hex.size()) return std::nullopt;
  return Number{bits, std::string(dtype), 0, 0};
}

Number widened(const Number& n) {
  if (n.dtype == "f64") return n;
  const double value = n.value();
  auto wide = std::bit_cast<uint64_t>(value);
  if (std::isnan(value)) {  // by hand: the processor would make a signaling NaN quiet
    const int fraction = n.dtype == "f32" ? 23 : n.dtype == "bf16" ? 7 : 10;
    const int width = n.dtype == "f32" ? 32 : 16;
    wide = (n.bits >> (width - 1) & 1) << 63 | uint64_t{0x7ff} << 52 |
           (n.bits & ((uint64_t{1} << fraction) - 1)) << (52 - fraction);
  }
  return {wide, "f64", n.digits, n.decimals};
}

Number narrowed(const Number& n) {
  if (n.dtype != "f64") return n;
  const double value = n.value();
  if (std::isnan(value))  // its leading payload bits; never an infinity
    return from_f32(static_cast<uint32_t>(n.bits >> 32 & 0x80000000) | 0x7f800000u |
                    std::max(1u, static_cast<uint32_t>(n.bits >> 29 & 0x7fffff)));
  return from_f32(std::bit_cast<uint32_t>(static_cast<float>(value)));
}

Number rounded(const Number& n, int decimals) {
  const double value = n.value();
  if (!std::isfinite(value)) {
    auto same = widened(n);
    same.digits = kNoDigits;
    return same;
  }
  char text[512];
  const int length = std::snprintf(text, sizeof text, "%.*f", decimals, value);
  auto result = *parse_decimal({text, static_cast<size_t>(length)});
  result.digits = shape_of(text + (text[0] == '-'))->digits;
  return result;
}

std::optional<int64_t> parse_step(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc()) return std::nullopt;
  std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    if (rest.find_first_not_of('0') != std::string_view::npos) return std::nullopt;
    rest = {};
  }
  return rest.empty() ? std::optional(step) : std::nullopt;
}

}  // namespace lockstep::curves
