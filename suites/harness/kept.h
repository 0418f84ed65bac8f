// SPDX-License-Identifier: Apache-2.0
// Kept cases: what failed before and what was once mended, replayed before a run generates anything.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "dashboard/store/rows.h"
#include "suites/core/suite.h"
#include "suites/harness/options.h"

namespace lockstep::dashboard {
class Store;
}

namespace lockstep::suites {

// A text file of tokens, one a line; the comment above a token says what was wrong.
// Throws Error if the file cannot be read or a line is no token, or if `check` throws one of a token; it then
// says where that stands.
std::vector<dashboard::KeptCase> read_corpus(const std::string& file,
                                             const std::function<void(const std::string&)>& check = nullptr);

// The corpus that the repository ships.
std::string shipped_corpus();

// Those of the databases and files that the run was told. Throws Error for a token of a text that cannot be
// read; a database may hold some of other versions.
std::vector<dashboard::KeptCase> named_cases(const RunOptions& options);

// Those, the kept cases of the run's own database, and the shipped ones.
std::vector<dashboard::KeptCase> known_cases(const std::vector<dashboard::KeptCase>& named,
                                             const dashboard::Store& store);

// What the run replays first, of those: of one bucket the shortest token alone, failures before what was
// mended, before boundary cases, before slow ones, of these two as many as thin_witnesses() says; only of the
// chosen suites, and none of suites in which the harness checks itself. A token that this version cannot read
// is told and left out.
std::vector<dashboard::KeptCase> kept_cases(const RunOptions& options, std::vector<dashboard::KeptCase> known,
                                            const std::vector<const Suite*>& chosen,
                                            const std::function<void(const std::string&)>& tell);

}  // namespace lockstep::suites
