// SPDX-License-Identifier: Apache-2.0
#include "oracle/program/number_text.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

namespace lockstep::oracle {
namespace {

constexpr double kPlainNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

std::string hex(uint64_t value) {
  std::array<char, 16> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, 16).ptr;
  return {buffer.data(), end};
}

std::string double_text(double value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (std::isnan(value)) {
    const auto bits = std::bit_cast<uint64_t>(value);
    return bits == std::bit_cast<uint64_t>(kPlainNan) ? "nan" : "nan:" + hex(bits);
  }
  std::array<char, 40> buffer{};
  std::string text(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::optional<double> parse_double(std::string_view text) {
  if (text == "nan") return kPlainNan;
  if (text.starts_with("nan:")) {
    uint64_t bits = 0;
    const auto [end, error] = std::from_chars(text.data() + 4, text.data() + text.size(), bits, 16);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return std::bit_cast<double>(bits);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace lockstep::oracle
