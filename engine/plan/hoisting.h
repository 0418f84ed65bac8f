// SPDX-License-Identifier: Apache-2.0
// Rows that move one input of a module around theirs, as one row of that module.
#pragma once
#include "engine/plan/traced_rows.h"

namespace lockstep {

void hoist(TracedRows& traced);

}  // namespace lockstep
