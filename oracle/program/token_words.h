// SPDX-License-Identifier: Apache-2.0
// The words of the text form, for who prints and who parses. The grammar is in README.md.
#pragma once
#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace lockstep::oracle {

// In the order of ValueKind.
inline constexpr std::array<std::string_view, 8> kValueKinds = {"normal", "uniform", "integers", "special",
                                                                "index",  "zeros",   "ones",     "bits"};
inline constexpr std::string_view kSuiteMarks = "_-.";  // of options, too
inline constexpr std::string_view kOpMarks = "_:.";

// Letters, digits and `others`, and not nothing.
inline bool is_word(std::string_view text, std::string_view others) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || others.find(c) != std::string_view::npos;
  });
}

}  // namespace lockstep::oracle
