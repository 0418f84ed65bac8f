// SPDX-License-Identifier: Apache-2.0
// Kept cases: what failed before and what was once mended, replayed before a run generates anything.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "dashboard/rows.h"
#include "suites/harness/options.h"
#include "suites/suite.h"

namespace lockstep::dashboard {
class Store;
}

namespace lockstep::suites {

// A text file of tokens, one a line; the comment above a token says what was wrong.
// Throws Error if the file cannot be read or a line is no token.
std::vector<dashboard::KeptCase> read_corpus(const std::string& file);

// The corpus that the repository ships.
std::string shipped_corpus();

// The kept cases of the run's database, of the databases and files that it was told, and the shipped ones.
std::vector<dashboard::KeptCase> known_cases(const RunOptions& options, const dashboard::Store& store);

// What the run replays first, of those: of one bucket the shortest token alone, failures before what was
// mended, before boundary cases, before slow ones, of these two as many as thin_witnesses() says; only of the
// chosen suites, and none of suites in which the harness checks itself. A token that this version cannot read
// is told and left out.
std::vector<dashboard::KeptCase> kept_cases(const RunOptions& options, std::vector<dashboard::KeptCase> known,
                                            const std::vector<const Suite*>& chosen,
                                            const std::function<void(const std::string&)>& tell);

}  // namespace lockstep::suites
