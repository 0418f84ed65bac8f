// SPDX-License-Identifier: Apache-2.0
// Ask: what one rank of an exchange asks of another, as text, so that the two can be held against each other
// across threads and processes.
#pragma once
#include <string>

#include "engine/world/world.h"

namespace lockstep {

struct Ask {
  std::string op;
  std::string sends, expects;  // "f32[2, 3] f32[4]"; empty: nothing
};

// What `part` asks of the rank at this place of its group.
Ask ask(const char* op, const Part& part, int64_t place);
// Throws Error that names both ranks and what each asks, unless they fit. `exchange`: "exchange 3 of ranks
// 0,1" or another name for it.
void agree(const std::string& exchange, int64_t rank, const Ask& ask, int64_t other, const Ask& theirs);

}  // namespace lockstep
