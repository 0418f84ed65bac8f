// SPDX-License-Identifier: Apache-2.0
// A text that somebody reads later on.
#pragma once
#include <string>

namespace lockstep::debug {

// Throws Error that begins with [who] and says why the file cannot be written.
void write_text(const std::string& who, const std::string& file, const std::string& text);

}  // namespace lockstep::debug
