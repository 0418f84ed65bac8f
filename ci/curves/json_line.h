// SPDX-License-Identifier: Apache-2.0
// One line of JSON whose numbers are kept as they were written: a JSON library would round them.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::curves {

// Numbers, NaN and Infinity (which Python writes) become marked texts; see number_text. Empty if the line is
// no JSON object.
std::optional<nlohmann::json> parse_json_line(std::string_view line);

// The text of a number as it stands in the file; empty if the value is none.
std::optional<std::string> number_text(const nlohmann::json& value);

// Any value as text for people: strings without quotes, numbers as written.
std::string plain_text(const nlohmann::json& value);

}  // namespace lockstep::curves
