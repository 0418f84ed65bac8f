// SPDX-License-Identifier: Apache-2.0
// Inputs, redistributed to where the decision wants them.
#pragma once
#include "engine/tensor/call.h"

namespace lockstep {

// Fills in placed. Throws Error where a redistribution is not allowed.
void place_inputs(Dispatched& d);

}  // namespace lockstep
