// SPDX-License-Identifier: Apache-2.0
// The rules that turn recorded verdicts into exit codes.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "suites/core/suite.h"

namespace lockstep::suites {

// Verdict by its stored name -> cases.
using VerdictCounts = std::map<std::string, int64_t>;

// The codes that the verdicts of one suite call for; empty if all are passes.
std::set<int> codes_of(const Suite& suite, const VerdictCounts& verdicts);
// Cases that came to a verdict: those that gave up or broke did not.
int64_t measured(const VerdictCounts& verdicts);
// How many of the planned cases must be measured: a fifth, or one of few, may
// give up or be alike and count once.
int64_t least_of(int64_t planned);

}  // namespace lockstep::suites
