// SPDX-License-Identifier: Apache-2.0
// Decisions that were made before.
#pragma once
#include "engine/tensor/call.h"

namespace lockstep {

// Fills in hosted and decision.
void find_decision(Dispatched& d);

}  // namespace lockstep
