// SPDX-License-Identifier: Apache-2.0
// Names of the store come from anywhere: what makes a text safe to show, in one line or in several.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::output {

// Law: the result is valid UTF-8, and is the text itself if that is. Each byte that belongs to no character
// is U+FFFD.
std::string utf8(std::string_view text);

// Law: valid UTF-8 without control characters but newline and tab, without characters that turn the direction
// of writing or that XML forbids. A control character is seen as its picture (U+2400 and on), the others as
// U+FFFD.
std::string visible(std::string_view text);

// As visible(), newline and tab as pictures too: one line, whatever is in it.
std::string one_line(std::string_view text);

// Law: at most `most` bytes, or the text itself; a cut is at a character and says how many bytes it took.
// @pre valid UTF-8, most >= 40
std::string cut(const std::string& text, size_t most);

// "12 cases", "1 case"
std::string plural(long n, std::string_view singular, std::string_view many);

}  // namespace lockstep::output
