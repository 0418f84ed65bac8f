// SPDX-License-Identifier: Apache-2.0
// Outcome: what became of one case. A sum type, so that a broken harness or a case that gave up is never a
// pass.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dashboard/store/rows.h"
#include "engine/values/digest.h"
#include "engine/values/placement.h"

namespace lockstep::suites {

// The law held: equal, explained with its proofs, refused as is due, or an expected exception (a short list,
// each with its reason).
struct Passed {
  dashboard::Verdict verdict = dashboard::Verdict::kEqual;
  // The ops that were not simply equal, and the class of each.
  std::vector<std::pair<std::string, dashboard::Verdict>> explained;
  std::string note;                                // for people; of a self check: what was found
  std::vector<dashboard::TensorDiff> differences;  // explained ones
  std::vector<dashboard::ExpectedException> exceptions;
  std::optional<dashboard::PlantedFault> fault;  // of the suite `faults`
  std::vector<std::string> labels;               // beside those of the case
  std::vector<dashboard::ForgivenRow> forgiven;  // by the judgement that the verdict is of
  int64_t bytes_moved = 0;  // in Worlds of the suite's own; the engine's count themselves
  std::optional<dashboard::RefusalRow> refusal{};  // that was due: no placements would have let the op run
};

// The law does not hold for the case.
struct Failed {
  dashboard::Verdict kind = dashboard::Verdict::kDifferent;  // or kCrashed, kHung
  std::string verdict;  // "value", "ulp", "sign of zero", "NaN payload", "shape", "exception", "signal 11", …
  std::string op;       // first op that diverged; empty if none can be named
  std::string pattern;  // kinds of placement at that op
  std::string dtype;
  std::string bucket;       // see bucket()
  std::string explanation;  // several lines for people
  std::vector<dashboard::TensorDiff> differences;
  std::optional<dashboard::PlantedFault> fault;  // that survived
  std::vector<std::string> labels;               // beside those of the case
  int64_t bytes_moved = 0;                       // as of Passed
};

// Run again, one side gave other bits than before.
struct Flaky {
  std::string side;  // "oracle", "engine"
  std::string explanation;
};

// The engine refuses the program by its documentation and nobody found whether it must, or the form is not
// built yet. Counted by op and reason; never a pass.
struct GaveUp {
  dashboard::RefusalRow refusal;
  std::string text;
};

// The harness or the oracle failed, not the engine.
struct HarnessBroken {
  std::string what;
};

using Outcome = std::variant<Passed, Failed, Flaky, GaveUp, HarnessBroken>;

// The class under which the store counts it.
dashboard::Verdict verdict_of(const Outcome& outcome);
std::string explanation_of(const Outcome& outcome);
// Reasons of what was not measured but refused by nobody begin so.
inline constexpr std::string_view kLeftOut = "left out: ", kNotJudged = "not judged: ", kDue = "due: ";
// A case that the engine cannot run, since it lacks this.
GaveUp left_out(const std::string& lacking);
// A case of which no bound would have told.
GaveUp not_judged(const std::string& why, const std::string& text);
// A Failed with its bucket filled in.
Failed failed(const std::string& suite, std::string verdict, std::string op, std::string pattern,
              std::string dtype, std::string explanation);

// The kinds of placement that occur, without dimensions and sizes: "P+S", "R".
std::string placement_pattern(const std::vector<Placements>& placements);

// What makes two failures the same bug: law | verdict | first divergent op | placement pattern | dtype. No
// sizes.
std::string bucket(const std::string& suite, const std::string& verdict, const std::string& op,
                   const std::string& pattern, const std::string& dtype);

// 64-bit hash of text; stable across machines and versions.
uint64_t stable_hash(std::string_view text);
std::string hex(uint64_t word);
std::string hex(const Digest& digest);

}  // namespace lockstep::suites
