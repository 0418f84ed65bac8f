// SPDX-License-Identifier: Apache-2.0
// Runs of a Case in which redistributions are begun and waited for later, as the suite `overlap` asks for
// them: an option of the Case, so that its token says it to whatever process runs it.
#pragma once
#include <array>

#include "oracle/program/program.h"

namespace lockstep::suites {

enum class Overlap {
  kNone,      // each is waited for at once
  kReversed,  // those that no op has waited for, from the last to the first, at the end
  kNever,     // what the Program never mentions again goes without a wait
  kWritten,   // from the first to the last; what each sends is written to before, which must be refused
};
inline constexpr std::array kOverlaps = {Overlap::kReversed, Overlap::kNever, Overlap::kWritten};
const char* name(Overlap overlap);  // "reversed", …

Overlap overlap_of(const oracle::Case& c);
oracle::Case overlapping(oracle::Case c, Overlap overlap);

// The redistributions of the Program, in order.
struct Begun {
  int64_t source, result;  // values of the Program
  bool mentioned;          // the result, by a later call
};
std::vector<Begun> begun_by(const oracle::Program& program);

}  // namespace lockstep::suites
