// SPDX-License-Identifier: Apache-2.0
// One number of a curve, and how exactly it was written: as bits, or as so many decimal digits.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::curves {

struct Number {
  uint64_t bits = 0;          // in the dtype
  std::string dtype = "f64";  // "f64", "f32", "bf16", "f16"
  int digits = 0;             // significant decimal digits; 0: every bit
  int decimals = 0;           // of a decimal text: digits after the point
  bool exact() const { return digits == 0; }
  double value() const;
  bool operator==(const Number&) const = default;
};

// The digits of "nan" and "inf" in a decimal text: no claim about bits, and none about precision.
inline constexpr int kNoDigits = 1000;
// A decimal text with so many significant digits stands for one f64 only.
inline constexpr int kDigitsOfF64 = 17;

// The number of a decimal text: "-7.25e-3", "nan", "-Infinity". `round_trip` ("f32", "f64") says that the
// writer promised texts that read back as the same bits; empty: no promise, and only 17 digits are bits.
// Empty if the text is no number, or one beyond the range of the dtype.
// @post -0.0 keeps its sign
std::optional<Number> parse_decimal(std::string_view text, std::string_view round_trip = {});

// "0x40e3f000" or the same without 0x: 16 hex digits are f64, 8 f32; 4 need `dtype`. A dtype of another width
// is refused: empty.
std::optional<Number> parse_bits(std::string_view hex, std::string_view dtype = {});

Number from_f32(uint32_t bits);

// The same value as f64. Loses nothing: a NaN keeps sign and payload.
Number widened(const Number& n);
// The nearest f32 of an f64. @pre n.exact()
Number narrowed(const Number& n);
// Rounded to so many digits after the point, as printf rounds; NaN and infinities stay.
Number rounded(const Number& n, int decimals);

// A whole number: "12", "-3", "12.0". Empty if it is none, or beyond 64 bits.
std::optional<int64_t> parse_step(std::string_view text);

}  // namespace lockstep::curves
