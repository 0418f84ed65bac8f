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
// How many of the planned cases a suite must measure, whatever gives up: a fifth, or one of few, may give up
// or be alike and count once. Which of that fifth may give up is not said here but by the baseline, by suite,
// op and reason (rules refuses_more and no_longer_judged of ci/gate).
int64_t least_of(int64_t planned);

}  // namespace lockstep::suites
