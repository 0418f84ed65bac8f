// SPDX-License-Identifier: Apache-2.0
#include "engine/values/text.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace lockstep {
namespace {

// Letters to be inserted, left out or exchanged (Levenshtein).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t k = 0; k <= b.size(); ++k) row[k] = k;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t before = std::exchange(row[0], i);
    for (size_t k = 1; k <= b.size(); ++k) {
      const size_t exchanged = before + (a[i - 1] != b[k - 1]);
      before = row[k];
      row[k] = std::min({row[k] + 1, row[k - 1] + 1, exchanged});
    }
  }
  return row[b.size()];
}

}  // namespace

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

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  if (candidates.empty()) return "";
  const auto nearest =
      std::min_element(candidates.begin(), candidates.end(),
                       [&](const auto& a, const auto& b) { return distance(word, a) < distance(word, b); });
  if (distance(word, *nearest) * 3 <= std::max(word.size(), nearest->size()))
    return " (did you mean '" + *nearest + "'?)";
  constexpr size_t kMost = 12;
  std::string all;
  for (size_t i = 0; i < std::min(kMost, candidates.size()); ++i) all += (i > 0 ? ", " : "") + candidates[i];
  const auto more = candidates.size() > kMost ? std::to_string(candidates.size() - kMost) : "";
  return " (there are: " + all + (more.empty() ? "" : ", and " + more + " more") + ")";
}

}  // namespace lockstep
