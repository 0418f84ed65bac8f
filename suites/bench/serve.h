// SPDX-License-Identifier: Apache-2.0
// The side of a process that is measured in turns with others: it answers requests, one line each, and keeps
// what it has prepared. Version 1 of the protocol, which a binary that serves as a baseline must speak:
//
//   on start               lockstep-bench 1
//   list                   series KIND BETTER UNIT AREA NAME, one line each, then: end     (the name may have
//   spaces) check NAME             ok · wrong TEXT sample SECONDS NAME    value NUMBER, a hexadecimal
//   floating-point number, from at least SECONDS of work instructions NAME      ran CALLS: so many calls were
//   made within lockstep_bench_instructions() · none: not for this
//                          series
//   quit, or the end       the process ends
//
// A name that the process does not know: unknown NAME. A request that fails: failed TEXT. TEXT is one line.
#pragma once
#include <iosfwd>

#include "suites/bench/body.h"

namespace lockstep::suites {

inline constexpr const char* kBenchGreeting = "lockstep-bench 1";
inline constexpr const char* kInstructionsFunction = "lockstep_bench_instructions";

void serve(const Bodies& bodies, std::istream& in, std::ostream& out);

}  // namespace lockstep::suites
