// SPDX-License-Identifier: Apache-2.0
// The parser of a token's statements, between its version and its checksum.
#pragma once
#include <string_view>

#include "oracle/program/program.h"

namespace lockstep::oracle {

// Throws Error that names the character and the statement.
Case parse_statements(std::string_view text);

}  // namespace lockstep::oracle
