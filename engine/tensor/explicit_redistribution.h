// SPDX-License-Identifier: Apache-2.0
// Whether this thread forbids implicit redistribution (dtensor.h, ExplicitRedistribution).
#pragma once

namespace lockstep {

bool explicit_redistribution_required();

}  // namespace lockstep
