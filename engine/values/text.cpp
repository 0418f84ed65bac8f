// SPDX-License-Identifier: Apache-2.0
#include "engine/values/text.h"

#include <charconv>

namespace lockstep {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::vector<int64_t>> parse_integers(std::string_view text, char separator) {
  std::vector<int64_t> values;
  for (const auto part : split(text, separator)) {
    const auto value = parse_integer(part);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::string join(const std::vector<int64_t>& values, char separator) {
  std::string text;
  for (const auto value : values) {
    if (!text.empty()) text += separator;
    text += std::to_string(value);
  }
  return text;
}

}  // namespace lockstep
