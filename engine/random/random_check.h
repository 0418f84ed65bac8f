// SPDX-License-Identifier: Apache-2.0
// What a RandomCall may ask for: the operator's name and values, the dtypes and arguments that it takes.
#pragma once
#include <optional>

#include "engine/stream/random_call.h"
#include "kernels/distribution.h"

namespace lockstep {

// The stock operator.
const char* op_name(RandomKind kind);
// What is made of a block's words, integers of one word standing for those of two as well; nothing for a
// permutation.
std::optional<Values> values_of(RandomKind kind);

// Throws Error where the stock operator would refuse dtype, shape or arguments.
void check_random_call(const RandomCall& call);

}  // namespace lockstep
