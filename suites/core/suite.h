// SPDX-License-Identifier: Apache-2.0
// Suite: a named family of cases and the one law that they must satisfy. An explicit table lists them all.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "suites/core/engine_under_test.h"
#include "suites/core/outcome.h"

namespace lockstep {
class World;
using WorldPtr = std::shared_ptr<World>;
}  // namespace lockstep

namespace lockstep::suites {

inline constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

// Of a case that is no Program: what the ranks end with that `world` hosts, without a timeline. Throws where
// one of them has what the law forbids.
using RunInWorld = EngineResult (*)(const WorldPtr& world, const oracle::Case& c);

struct Suite {
  const char* name;
  const char* law;  // one sentence
  int64_t weight;   // cases in one round of a run
  int64_t limit;    // how many cases exist; kEndless: generated
  bool self_check;  // faults, canary: what survives is exit code 8
  // The case of this number: a pure function of (run seed, index).
  oracle::Case (*generate)(uint64_t run_seed, int64_t index);
  // Whether the law holds for this case. A pure function of the case, as far as the engine is deterministic.
  Outcome (*judge)(const oracle::Case& c, EngineUnderTest& engine);
  Flag needs = Flag::kNone;  // what an engine must have
  // Of cases that are no Programs; null: they are, and have no options (but by_library.h's and options.h's).
  // check throws Error for a case that is none of the suite's; simpler has smaller ones, the boldest first,
  // and leads nowhere back.
  void (*check)(const oracle::Case& c) = nullptr;
  std::vector<oracle::Case> (*simpler)(const oracle::Case& c) = nullptr;
  RunInWorld run = nullptr;  // of these, if ranks run one
};

std::span<const Suite> suites();
// Throws Error that lists the names.
const Suite& find_suite(std::string_view name);

// Its suite's; null: the case is a Program, or no rank runs it.
RunInWorld run_in_world(const oracle::Case& c);

// Throws Error for a case of which the suite cannot judge anything.
void check_case(const Suite& suite, const oracle::Case& c);

// judge(), with everything the engine, the oracle or libtorch throws turned into an Outcome; a case that the
// engine cannot run, by its profile, is left out.
Outcome judge_safely(const Suite& suite, const oracle::Case& c, EngineUnderTest& engine);

}  // namespace lockstep::suites
