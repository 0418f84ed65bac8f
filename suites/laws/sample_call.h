// SPDX-License-Identifier: Apache-2.0
// A call of an op as rules see it, made from a case of the generators: shapes, arguments, no placements.
#pragma once
#include <memory>
#include <set>
#include <string>

#include "engine/ops/rules/table.h"
#include "engine/values/timeline.h"
#include "generators/cases/programs.h"
#include "oracle/program/program.h"
#include "suites/core/engine_under_test.h"

namespace lockstep::suites {

struct SampleCall {
  const OpEntry* entry = nullptr;
  std::string token;                      // of the case it was taken from
  std::shared_ptr<TimelineEntry> logged;  // owns the arguments that `call` refers to
  OpCall call;
};

// The Case on a mesh of one device, where every input stays as it is.
oracle::Case on_one_device(oracle::Case c);

// The run of the i-th case of an op template on one device, every other one with gradients; empty where the
// engine says that a form is not built.
EngineResult sampled(const generators::OpTemplate& op, int64_t i, EngineUnderTest& engine);

// `op` with or without overload. Throws Error if there is no rule for it, or no generated case calls it.
SampleCall sample_call(const std::string& op);
// The call of `op`'s stem that this case makes, if it makes one. @pre engine.profile().has(kTimeline |
// kRules)
SampleCall call_in(const oracle::Case& c, const std::string& op, EngineUnderTest& engine);

// The rows that the rules offer to the calls of a run with a timeline, over a mesh dimension of two where all
// is replicated, in the form of Facts::rows without its end: "aten::mm[S0,R>S0]".
std::set<std::string> offered_rows(const EngineResult& run);
// To the calls of so many cases of each op template, every other one with gradients.
std::set<std::string> offered_rows(int64_t samples);

}  // namespace lockstep::suites
