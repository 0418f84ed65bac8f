// SPDX-License-Identifier: Apache-2.0
#include "dashboard/pages/query.h"

#include <charconv>

namespace lockstep::dashboard {

std::string Query::text(std::string_view name) const {
  for (const auto& [key, value] : list_)
    if (key == name) return value;
  return "";
}

std::optional<int64_t> Query::number(std::string_view name, int64_t least, int64_t most) const {
  const std::string value = text(name);
  if (value.empty()) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least || number > most) {
    throw BadQuery("\"" + std::string(name) + "\" is " + value.substr(0, 60) +
                   ", and must be a number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

}  // namespace lockstep::dashboard
