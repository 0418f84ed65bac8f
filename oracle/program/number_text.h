// SPDX-License-Identifier: Apache-2.0
// Numbers as text that keeps their bits.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::oracle {

std::string hex(uint64_t value);

// The shortest decimal that reads back to the same bits; always with a mark that it is no integer.
std::string double_text(double value);
// nullopt: the text is no such number.
std::optional<double> parse_double(std::string_view text);

}  // namespace lockstep::oracle
