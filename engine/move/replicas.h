// SPDX-License-Identifier: Apache-2.0
// Replicas that ranks have computed, each for itself, share storage where they came out alike.
#pragma once
#include "engine/values/per_rank.h"
#include "engine/values/spec.h"
#include "engine/world/comm.h"

namespace lockstep {

// Of large tensors that nobody else holds, each that has the bits and strides of the first replica of its
// part becomes a copy that shares its storage; one that does not stays as it is.
void share_replicas(PerRank<at::Tensor>& locals, const Spec& spec, const Comm& comm);

}  // namespace lockstep
