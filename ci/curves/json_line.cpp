// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/json_line.h"

#include <cctype>

namespace lockstep::curves {
namespace {

constexpr char kMark = '\x01';  // JSON texts cannot hold it unescaped

bool begins_number(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'N' || c == 'I';
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.';
}

// Every bare number as a text that begins with the mark.
std::string with_marked_numbers(std::string_view line) {
  std::string out;
  bool in_text = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (in_text || !is_word(c)) {
      out.push_back(c);
      if (in_text && c == '\\' && i + 1 < line.size())
        out.push_back(line[++i]);
      else if (c == '"')
        in_text = !in_text;
      continue;
    }
    size_t end = i;
    while (end < line.size() && is_word(line[end])) ++end;
    const auto word = line.substr(i, end - i);
    if (begins_number(c))
      out.append("\"\\u0001").append(word).push_back('"');
    else
      out.append(word);
    i = end - 1;
  }
  return out;
}

void unmark(nlohmann::json& value) {
  if (value.is_string() && value.get_ref<const std::string&>().starts_with(kMark))
    value = value.get<std::string>().substr(1);
  else if (value.is_structured())
    for (auto& part : value) unmark(part);
}

}  // namespace

std::optional<nlohmann::json> parse_json_line(std::string_view line) {
  auto value = nlohmann::json::parse(with_marked_numbers(line), nullptr, false);
  if (value.is_discarded() || !value.is_object()) return std::nullopt;
  return value;
}

std::optional<std::string> number_text(const nlohmann::json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  if (!text.starts_with(kMark)) return std::nullopt;
  return text.substr(1);
}

std::string plain_text(const nlohmann::json& value) {
  auto copy = value;
  unmark(copy);
  return copy.is_string() ? copy.get<std::string>()
                          : copy.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace lockstep::curves
