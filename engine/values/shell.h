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

}  // namespace lockstep
