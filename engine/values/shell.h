// SPDX-License-Identifier: Apache-2.0
// One word of a shell command.
#pragma once
#include <string>
#include <string_view>

namespace lockstep {

// The text in single quotes: a POSIX shell reads back exactly this text, whatever is in it.
inline std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) c == '\'' ? quoted += "'\\''" : quoted += c;
  return quoted + "'";
}

// The text as it is where a shell reads it as one word without meaning, else in quotes.
inline std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  const bool plain = !text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos;
  return plain ? std::string(text) : shell_quoted(text);
}

}  // namespace lockstep
