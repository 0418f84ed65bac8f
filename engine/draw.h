// SPDX-License-Identifier: Apache-2.0
// Random ops on DTensors: the hosted ranks' parts of one draw from the thread's generator.
#pragma once
#include "engine/comm.h"
#include "engine/values/per_rank.h"
#include "engine/values/random_source.h"
#include "engine/values/spec.h"

namespace lockstep {

// @pre values is not Partial. @post locals hold the elements that `values` places there of the single
// device's tensor (or, under another policy, what that policy draws); generator() has advanced as the policy
// says, once.
PerRank<at::Tensor> draw(const RandomCall& call, const Spec& values, const Comm& comm);

}  // namespace lockstep
