// SPDX-License-Identifier: Apache-2.0
// The steps of an op's way, in their order; each fills in what the next ones read.
#pragma once
#include "engine/tensor/call.h"
#include "engine/values/timeline.h"

namespace lockstep {

// fallback.cpp. An op without a rule, as one that runs whole on every rank. Throws Refused unless a scope
// allows that, and the op can.
Resolved without_rule(const c10::OperatorHandle& op, const Resolved& resolved, const ParsedCall& call);

// A reduction of what ranks share, composed of what they add up and of what comes once after that; false: it
// runs by its rows. means.cpp: the sum, divided.
bool run_mean(const Arguments& args, torch::jit::Stack& stack);
// norms.cpp. The sum of powers and its root, or the greatest or least magnitude; and a list of norms, one by
// one.
bool run_norm(const Arguments& args, torch::jit::Stack& stack);
bool run_norms(const Arguments& args, torch::jit::Stack& stack);

// place.cpp. Throws Refused where the op writes to what a redistribution still sends.
void check_writes(const Dispatched& d);

// bypass.cpp. The first bypass that is for the call; false: there is none. What is recorded goes by the rule,
// and where nothing may move implicitly, it is refused by it.
bool run_bypass(Dispatched& d, torch::jit::Stack& stack);

// cache.cpp. Fills in hosted and decision, made or remembered; and what the decision was between, by making
// it again.
void find_decision(Dispatched& d);
Candidates candidates_of(Dispatched& d);

// activities.cpp. The op, as who records is told of it. @pre it is decided
Activity activity_of(Dispatched& d, ActivityLog& log);
// Bypassed: what comes out.
Activity activity_of(const Dispatched& d, const SpecPtr& out);

// place.cpp. Fills in placed: inputs, redistributed to where the decision wants them. Throws Error where a
// redistribution is not allowed.
void place_inputs(Dispatched& d);

// timeline.cpp. The op's entry, begun before it runs, since it may write to its inputs, and appended to the
// current timeline.
TimelineEntry begin_entry(const Dispatched& d);
void end_entry(const Dispatched& d, TimelineEntry entry, at::ArrayRef<at::Tensor> outputs);

// run.cpp. The op on every hosted rank; its results are pushed to the stack and returned. In-place ops write
// to the locals and return the very arguments they were given.
PerOperand<at::Tensor> run(const Dispatched& d, torch::jit::Stack& stack);
// What every rank gave in this place of its results: a program branches by it. Throws Error where they
// differ.
const c10::IValue& agreed(const Dispatched& d, const std::vector<torch::jit::Stack>& results, size_t place);
// A value read on the host: the same on every rank, or the ranks would part ways.
void run_scalar(const Dispatched& d, torch::jit::Stack& stack);

// out_variants.cpp. The functional op, then a copy; an empty out takes the result over. Needs no decision.
void run_out(const Dispatched& d, torch::jit::Stack& stack);

}  // namespace lockstep
