// SPDX-License-Identifier: Apache-2.0
// What a RandomCall may ask for: the operator's name, the dtypes and arguments that it takes.
#pragma once
#include "engine/stream/random_call.h"

namespace lockstep {

const char* op_name(RandomKind kind);

// Throws Error where the stock operator would refuse dtype, shape or arguments.
void check_random_call(const RandomCall& call);

}  // namespace lockstep
