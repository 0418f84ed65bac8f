// SPDX-License-Identifier: Apache-2.0
// The judgement that most suites share: engine and oracle run the same Case, and every value on every rank is
// compared.
#pragma once
#include "oracle/judge/check.h"
#include "suites/core/outcome.h"
#include "suites/core/suite.h"

namespace lockstep::suites {

enum class Allowed {
  kEqual,      // every bit
  kExplained,  // or a difference with the oracle's proofs
};

// Every value of the Program, on every rank, against the oracle; the random stream ends where the oracle's
// does. A case of the integer lane is never explained.
Outcome judge_against_oracle(const oracle::Case& c, EngineUnderTest& engine, Allowed allowed);
// The same of what the engine came to, in a run in which it was asked for a timeline.
Outcome judge_run(const oracle::Case& c, const oracle::PlainRun& plain, const EngineResult& got,
                  EngineUnderTest& engine, Allowed allowed);

// What the oracle's judgement comes to. @pre it passed.
Passed passed_with(const oracle::Judgement& judgement);
// What the engine may say no to: forms that are not built, and moves that a view or an in-place op would
// need.
std::optional<dashboard::RefusalRow> refusal_of(const std::exception& e, const oracle::Case& c);
// A run that an engine in another process did not answer.
Failed failed_run(const oracle::Case& c, const EngineFailure& e);
// A run in which the engine threw.
Failed thrown_run(const oracle::Case& c, const std::exception& e);

// Runs what is no Program; nothing: `result` is what it ends with. Throws what is no verdict: NotBuilt, and
// the loss of a device.
std::optional<Failed> fails_to_run(const oracle::Case& c, EngineUnderTest& engine, EngineResult& result);

// Two results of the engine: the same values in bits, rank by rank, for positions that correspond one to one.
// Empty if they agree; else what differs first.
std::string first_disagreement(const EngineResult& a, const EngineResult& b);

}  // namespace lockstep::suites
