// SPDX-License-Identifier: Apache-2.0
// Runs of a Case in which each redistribution goes by way of another mesh of its ranks, or of some, as the
// suite `redistribute` asks for them: an option of the Case, so that its token says it to whatever process
// runs it.
#pragma once
#include <optional>

#include "oracle/program/program.h"

namespace lockstep::suites {

// @param seed of the ways, not negative
oracle::Case across(oracle::Case c, int64_t seed);
std::optional<int64_t> across_of(const oracle::Case& c);

}  // namespace lockstep::suites
