// SPDX-License-Identifier: Apache-2.0
// Small helpers of the text forms: splitting, and numbers that must fill their text.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The parts between separators; "a,,b" has three; "" has one, which is empty.
std::vector<std::string_view> split(std::string_view text, char separator);
// A decimal integer that is the whole text; nothing else: no spaces, no plus sign, no overflow.
std::optional<int64_t> parse_integer(std::string_view text);
// Integers between separators. Empty where any part is not an integer.
std::optional<std::vector<int64_t>> parse_integers(std::string_view text, char separator);
std::string join(const std::vector<int64_t>& values, char separator);
// " (did you mean 'mesh'?)": the candidate that is fewest letters away, where at most a third of them are;
// else " (there are: mesh, seed)", the first ones of many; "" without candidates.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace lockstep
